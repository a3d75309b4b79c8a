"""Who may change something through which route. A route that is missing here fails the matrix.

The needs are those of panel/accounts/permissions.py. "session" is for administrators in a session that was confirmed by
the password; a token never does it. "nothing" changes no row whoever asks, "own" only rows of the caller.
"""

from __future__ import annotations

from dataclasses import dataclass

from panel.accounts.models import Role, Scope, User

_ROUTES = {
    "nothing": """
        dashboard search help health ready job job-live job-events
        accounts:setup accounts:settings accounts:self_check accounts:users
        accounts:teams accounts:account accounts:tokens
        hosts:list hosts:live hosts:detail hosts:logs hosts:resources hosts:traffic
        imports:site websites:list websites:certificates websites:certificate
        websites:certificate_file
        websites:detail websites:history websites:revision websites:blocks
        websites:upstreams websites:streams websites:php
        websites:explain websites:raw websites:logs websites:requests websites:traffic websites:benchmarks websites:tls
        deployments:list deployments:detail deployments:drift
        deployments:drift-checks deployments:drift-detail
        benchmarks:list benchmarks:compare benchmarks:scenarios benchmarks:scenario benchmarks:scenario-new
        benchmarks:scenario-check benchmarks:suites benchmarks:suite-compare benchmarks:suite-expected
        benchmarks:suite benchmarks:suite-json benchmarks:suite-report
        benchmarks:suite-csv benchmarks:detail benchmarks:output
        benchmarks:export-json benchmarks:export-csv
        reports:list reports:schedules reports:dates reports:schedule-new reports:schedule-check reports:schedule
        reports:detail reports:download comparisons:detail certificates:accounts certificates:live
        audit:list audit:export audit:detail rollouts:list rollouts:detail previews:detail
        publishing:content publishing:detail api:releases-list api:releases-detail
        placements:list failover:list deployments:windows api:maintenance-detail
        certificates:dns_accounts certificates:calendar certificates:on_host websites:access_lists websites:header_sets
        websites:directive_sets
        api:attention api:schema api:docs api:job api:job-events api:problems api:problem api:self-check
        api:search api:audit-list api:audit-detail api:deployments-steps
        api:certificate-readings-list api:certificate-readings-detail
        api:host-certificates-list api:host-certificates-detail
        api:drifts-list api:drifts-detail api:hosts-logs api:hosts-resources api:hosts-traffic
        api:imports-sites api:web-servers-list
        api:host-jobs-list api:host-jobs-detail api:pins-list api:reports-as-csv api:reports-as-html
        api:reports-as-json api:reports-as-ods api:reports-as-pdf api:reports-deliveries
        api:revisions-list api:revisions-detail api:revisions-files api:runs-compare api:runs-export-csv
        api:runs-export-json api:runs-output api:runs-rounds api:scenarios-history api:schedules-dates
        api:schedules-occurrences api:sites-differences api:sites-explain api:sites-findings api:sites-logs
        api:sites-preview api:sites-problems api:sites-requests api:sites-revisions api:sites-traffic api:suites-compare
        api:suites-export-csv api:suites-export-json api:suites-report api:suites-tables api:nothing
    """,
    "sign-in": "accounts:link accounts:forgotten accounts:login accounts:code accounts:logout accounts:sudo "
    "enrollments:enroll enrollments:ready",
    "own": """
        accounts:password accounts:sessions accounts:sessions_end accounts:session_end accounts:second_factor
        accounts:recovery_codes accounts:second_factor_off accounts:token_new accounts:token_revoke
        accounts:view_save accounts:view_delete api:saved-views-list api:saved-views-detail api:tokens-list
        api:tokens-detail api:me
    """,
    "change": """
        api:sites-from-preset
        placements:detail placements:delete api:placements-list api:placements-detail
        websites:create websites:bulk websites:bulk_delete websites:bulk_move websites:bulk_tag
        websites:certificate_upload websites:certificate_self_sign websites:certificate_replace
        websites:certificate_export api:certificates-pkcs12
        websites:access_list_add websites:access_list websites:access_list_delete
        websites:header_set_add websites:header_set websites:header_set_delete
        api:access-lists-list api:access-lists-detail api:header-sets-list api:header-sets-detail
        certificates:dns_account_add certificates:dns_account certificates:dns_account_test
        certificates:dns_account_delete api:dns-accounts-list api:dns-accounts-detail api:dns-accounts-test
        certificates:account_key_change certificates:account_deactivate certificates:revoke
        api:acme-accounts-change-key api:automatic-https-revoke
        certificates:account_add certificates:account_delete certificates:disable api:acme-accounts-list
        api:acme-accounts-detail api:acme-accounts-deactivate
        websites:certificate_delete websites:edit websites:clone websites:server websites:delete websites:set_back
        websites:fix websites:enable websites:block_add websites:block websites:block_delete websites:location_add
        websites:location websites:location_move websites:location_delete websites:upstreams_add
        websites:upstreams_edit websites:upstreams_delete websites:streams_add websites:streams_edit
        websites:streams_delete api:stream-servers-list api:stream-servers-detail
        websites:php_add websites:php_edit websites:php_delete
        api:blocks-list api:blocks-detail api:blocks-locations api:blocks-reorder api:certificates-list
        api:certificates-self-sign api:certificates-detail api:locations-list api:locations-detail
        api:php-pools-list api:php-pools-detail api:upstreams-list api:upstreams-detail api:sites-list api:sites-quick
        api:sites-detail api:sites-clone api:sites-definition api:sites-enable api:sites-fix api:sites-move
        api:sites-set-back api:sites-bulk
    """,
    "deploy": """
        deployments:plan deployments:confirm deployments:cancel deployments:again deployments:rollback
        deployments:disable deployments:empty-cache deployments:overwrite deployments:drift-check
        deployments:drift-adopt api:deployments-list api:deployments-detail api:deployments-again
        api:deployments-cancel api:deployments-confirm api:drifts-adopt api:drifts-overwrite api:sites-disable
        imports:adopt_edit api:drifts-adopt-settings
        api:sites-empty-cache api:sites-rollback api:sites-take-off api:hosts-check-drift
        comparisons:switch comparisons:switch-plan api:comparisons-switch certificates:site certificates:order
        api:automatic-https-list api:automatic-https-detail api:automatic-https-order
        rollouts:start rollouts:pause rollouts:resume rollouts:approve rollouts:end rollouts:undo
        api:rollouts-list api:rollouts-detail api:rollouts-pause api:rollouts-resume api:rollouts-approve
        api:rollouts-end api:rollouts-undo deployments:maintenance deployments:maintenance-end
        api:maintenance-list api:maintenance-end
        placements:plan api:placements-plan previews:request previews:cancel api:previews-list
        publishing:upload publishing:git publishing:again publishing:cancel api:publications-list
        api:publications-detail
        api:previews-detail
    """,
    "benchmark": """
        benchmarks:run-create benchmarks:quick benchmarks:scenario-create benchmarks:scenario-edit
        benchmarks:scenario-delete benchmarks:suite-start benchmarks:suite-cancel benchmarks:suite-again
        benchmarks:suite-delete benchmarks:cancel benchmarks:again benchmarks:delete
        reports:create reports:schedule-create reports:schedule-edit reports:schedule-pause reports:schedule-resume
        reports:schedule-run reports:schedule-delete reports:send reports:delete
        websites:comparisons websites:comparisons_replay comparisons:cancel comparisons:again comparisons:delete
        api:reports-list api:reports-detail api:reports-send api:runs-list api:runs-detail api:runs-cancel
        api:runs-repeat api:scenarios-list api:scenarios-quick api:scenarios-detail api:schedules-list
        api:schedules-detail api:schedules-pause api:schedules-resume api:schedules-run-now api:suites-list
        api:suites-detail api:suites-cancel api:suites-repeat api:comparisons-list api:comparisons-replay
        api:comparisons-detail
        api:comparisons-cancel api:comparisons-repeat
    """,
    "any": "api:job-cancel",
    "administer": """
        hosts:add hosts:bulk hosts:bulk_tag hosts:edit hosts:delete hosts:trust hosts:ask hosts:prepare hosts:service
        hosts:adopt hosts:forget hosts:stop hosts:cancel imports:start imports:read imports:upload imports:report
        imports:delete websites:snippet_add websites:snippet websites:snippet_delete deployments:main-file
        deployments:pin-release api:hosts-list api:hosts-bulk api:hosts-detail api:hosts-adopt-server api:hosts-check
        api:hosts-install-native api:hosts-prepare api:hosts-trust-key api:hosts-sign-in api:hosts-replace-key
        failover:add failover:detail failover:apply failover:withdraw failover:delete api:virtual-addresses-list
        api:virtual-addresses-detail api:virtual-addresses-apply api:virtual-addresses-withdraw
        fpm:pool fpm:apply fpm:remove fpm:forget api:fpm-pools-list api:fpm-pools-detail api:fpm-pools-apply
        hosts:authorities hosts:authority_add hosts:authority_delete api:ssh-authorities-list
        api:ssh-authorities-detail
        enrollments:list enrollments:revoke api:enrollments-list api:enrollments-detail
        deployments:window
        deployments:window-add deployments:window-delete api:change-windows-list api:change-windows-detail
        api:imports-list api:imports-upload accounts:mail_test api:mail-server-test
        api:imports-detail api:imports-adopt api:web-servers-detail api:web-servers-main-file api:web-servers-service
        api:allowances-list api:allowances-detail websites:shared_names websites:allowance_delete hosts:local_services
        api:pins-detail api:teams-list api:teams-detail api:snippets-list api:snippets-detail
        websites:directive_set_add websites:directive_set websites:directive_set_delete
        api:directive-sets-list api:directive-sets-detail
    """,
    "session": """
        accounts:user_new accounts:user accounts:user_delete accounts:user_second_factor_off accounts:team_new
        accounts:user_link accounts:mail accounts:mail_delete api:users-link api:mail-server
        accounts:team accounts:team_delete api:users-list api:users-detail api:users-second-factor-off
    """,
}
NEEDS = {route: need for need, routes in _ROUTES.items() for route in routes.split()}
_SCOPES = {"change": Scope.SITES, "deploy": Scope.DEPLOY, "benchmark": Scope.BENCHMARK}


@dataclass(frozen=True)
class Caller:
    """Somebody who asks: `user` None is nobody; `scope` "" is a session, else a token of that scope alone."""

    name: str
    user: User | None
    is_of_team: bool
    scope: str = ""

    @property
    def teams(self) -> set[int]:
        return set() if self.user is None else set(self.user.teams.values_list("pk", flat=True))

    def __str__(self) -> str:
        return self.name


def may_change(caller: Caller, need: str) -> bool:
    """Whether the caller may change rows that are not the caller's own, of the world's team or of no team."""
    user = caller.user
    if user is None or need in ("nothing", "own", "sign-in"):
        return False
    is_admin = user.role == Role.ADMIN
    if need in ("administer", "session"):
        return is_admin and (caller.scope == "" or (need == "administer" and caller.scope == Scope.ADMIN))
    has_scope = caller.scope in ("", Scope.ADMIN) or (
        caller.scope != Scope.READ and _SCOPES.get(need) in (None, caller.scope)
    )
    return has_scope and (is_admin or (user.role == Role.OPERATOR and caller.is_of_team))
