"""Every page has a counterpart in the API, checked against URLconf, schema and forms."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
from django import forms
from django.test import Client

import panel
from panel.core.forms import ConfirmNameForm
from tests.suites.security.addresses import Address, addresses
from tests.suites.security.conftest import session_of
from tests.suites.security.world import World, build

API = "/api/v1/"
UNSAFE = {"POST", "PUT", "PATCH", "DELETE"}

# Each page, by its name in the URLconf: the operations that show or do the same.
TWINS: dict[str, str] = {
    "search": "GET search/",
    "dashboard": "GET attention/",
    "accounts:view_save": "POST saved-views/",
    "accounts:view_delete": "DELETE saved-views/{id}/",
    "health": "GET self-check/",
    "accounts:account": "GET me/, PATCH me/",
    "accounts:tokens": "GET tokens/",
    "accounts:token_new": "POST tokens/",
    "accounts:token_revoke": "DELETE tokens/{id}/",
    "accounts:self_check": "GET self-check/",
    "accounts:user_link": "POST users/{id}/link/",
    "accounts:mail": "GET mail-server/, PUT mail-server/",
    "accounts:mail_test": "POST mail-server/test/",
    "accounts:mail_delete": "DELETE mail-server/",
    "accounts:users": "GET users/",
    "accounts:user_new": "POST users/",
    "accounts:user": "GET users/{id}/, PATCH users/{id}/",
    "accounts:user_delete": "DELETE users/{id}/",
    "accounts:user_second_factor_off": "POST users/{id}/second-factor-off/",
    "accounts:teams": "GET teams/",
    "accounts:team_new": "POST teams/",
    "accounts:team": "GET teams/{id}/, PATCH teams/{id}/",
    "accounts:team_delete": "DELETE teams/{id}/",
    "audit:list": "GET audit/",
    "audit:export": "GET audit/",
    "audit:detail": "GET audit/{id}/",
    "hosts:list": "GET hosts/",
    "hosts:add": "POST hosts/",
    "hosts:authorities": "GET ssh-authorities/",
    "hosts:authority_add": "POST ssh-authorities/",
    "hosts:authority_delete": "DELETE ssh-authorities/{name}/",
    "enrollments:list": "GET enrollments/, POST enrollments/",
    "failover:list": "GET virtual-addresses/",
    "failover:add": "POST virtual-addresses/",
    "failover:detail": "GET virtual-addresses/{name}/, PATCH virtual-addresses/{name}/",
    "failover:apply": "POST virtual-addresses/{name}/apply/",
    "failover:withdraw": "POST virtual-addresses/{name}/withdraw/",
    "failover:delete": "DELETE virtual-addresses/{name}/",
    "fpm:pool": "GET fpm-pools/{site}/, POST fpm-pools/, PATCH fpm-pools/{site}/",
    "fpm:apply": "POST fpm-pools/{site}/apply/",
    "fpm:remove": "DELETE fpm-pools/{site}/",
    "fpm:forget": "DELETE fpm-pools/{site}/",
    "enrollments:revoke": "DELETE enrollments/{id}/",
    "hosts:bulk": "POST hosts/bulk/",
    "hosts:bulk_tag": "POST hosts/bulk/",
    "hosts:detail": "GET hosts/{name}/, GET hosts/{name}/sign-in/, GET web-servers/",
    "hosts:live": "GET host-jobs/",
    "job": "GET jobs/{uuid}/",
    "job-live": "GET jobs/{uuid}/",
    "job-events": "GET jobs/{uuid}/events/",
    "hosts:resources": "GET hosts/{name}/resources/",
    "hosts:traffic": "GET hosts/{name}/traffic/",
    "hosts:logs": "GET hosts/{name}/logs/",
    "hosts:local_services": "GET allowances/, POST allowances/",
    "websites:shared_names": "GET allowances/, POST allowances/",
    "websites:allowance_delete": "DELETE allowances/{id}/",
    "hosts:edit": "PATCH hosts/{name}/",
    "hosts:delete": "DELETE hosts/{name}/",
    "hosts:trust": "POST hosts/{name}/trust-key/",
    "hosts:ask": "POST hosts/{name}/check/, POST hosts/{name}/install-gallop/, POST hosts/bulk/",
    "hosts:prepare": "POST hosts/{name}/prepare/",
    "hosts:service": "POST web-servers/{id}/service/",
    "hosts:stop": "POST web-servers/{id}/service/",
    "hosts:adopt": "POST hosts/{name}/adopt-server/",
    "hosts:forget": "DELETE web-servers/{id}/",
    "hosts:cancel": "POST jobs/{uuid}/cancel/",
    "imports:start": "GET imports/",
    "imports:read": "POST imports/",
    "imports:upload": "POST imports/upload/",
    "imports:report": "GET imports/{uuid}/, POST imports/{uuid}/adopt/",
    "imports:site": "GET imports/{uuid}/sites/",
    "imports:delete": "DELETE imports/{uuid}/",
    "websites:list": "GET sites/",
    "websites:create": "POST sites/from-preset/, POST sites/, POST sites/quick/",
    "websites:bulk": "POST sites/bulk/",
    "websites:bulk_delete": "POST sites/bulk/",
    "websites:bulk_move": "POST sites/bulk/",
    "websites:bulk_tag": "POST sites/bulk/",
    "websites:certificates": "GET certificates/",
    "websites:certificate_upload": "POST certificates/",
    "websites:certificate_self_sign": "POST certificates/self-sign/",
    "websites:certificate": "GET certificates/{name}/",
    "websites:certificate_file": "GET certificates/{name}/",
    "websites:certificate_export": "POST certificates/{name}/pkcs12/",
    "websites:certificate_replace": "PUT certificates/{name}/",
    "websites:certificate_delete": "DELETE certificates/{name}/",
    "websites:detail": "GET sites/{name}/, GET sites/{name}/problems/",
    "websites:fix": "POST sites/{name}/fix/, GET sites/{name}/findings/",
    "websites:edit": "PATCH sites/{name}/",
    "websites:clone": "POST sites/{name}/clone/",
    "websites:server": "PATCH sites/{name}/, POST sites/{name}/move/",
    "websites:delete": "DELETE sites/{name}/, POST sites/{name}/take-off/",
    "websites:history": "GET sites/{name}/revisions/, GET deployments/",
    "websites:enable": "POST sites/{name}/enable/",
    "websites:blocks": "GET blocks/, GET locations/, GET snippets/",
    "websites:block_add": "POST blocks/",
    "websites:block": "GET blocks/{id}/, PATCH blocks/{id}/",
    "websites:block_delete": "DELETE blocks/{id}/",
    "websites:location_add": "POST blocks/{id}/locations/",
    "websites:location": "GET locations/{id}/, PATCH locations/{id}/",
    "websites:location_move": "PUT blocks/{id}/locations/order/",
    "websites:location_delete": "DELETE locations/{id}/",
    "websites:snippet_add": "POST snippets/",
    "websites:snippet": "GET snippets/{id}/, PATCH snippets/{id}/",
    "websites:snippet_delete": "DELETE snippets/{id}/",
    "websites:upstreams": "GET upstreams/",
    "websites:upstreams_add": "POST upstreams/",
    "websites:upstreams_edit": "GET upstreams/{id}/, PATCH upstreams/{id}/",
    "websites:upstreams_delete": "DELETE upstreams/{id}/",
    "websites:php": "GET php-pools/",
    "websites:php_add": "POST php-pools/",
    "websites:php_edit": "GET php-pools/{id}/, PATCH php-pools/{id}/",
    "websites:php_delete": "DELETE php-pools/{id}/",
    "websites:streams": "GET stream-servers/",
    "websites:streams_add": "POST stream-servers/",
    "websites:streams_edit": "GET stream-servers/{id}/, PATCH stream-servers/{id}/",
    "websites:streams_delete": "DELETE stream-servers/{id}/",
    "websites:explain": "GET sites/{name}/explain/",
    "websites:raw": "GET sites/{name}/preview/, GET sites/{name}/differences/",
    "websites:traffic": "GET sites/{name}/traffic/",
    "websites:logs": "GET sites/{name}/logs/",
    "websites:requests": "GET sites/{name}/requests/",
    "websites:benchmarks": "GET runs/",
    "websites:tls": "GET blocks/, GET certificates/",
    "deployments:list": "GET deployments/",
    "deployments:plan": "POST deployments/",
    "deployments:detail": "GET deployments/{uuid}/, GET deployments/{uuid}/steps/",
    "deployments:confirm": "POST deployments/{uuid}/confirm/",
    "deployments:cancel": "POST deployments/{uuid}/cancel/",
    "deployments:again": "POST deployments/{uuid}/again/",
    "deployments:rollback": "POST sites/{name}/rollback/",
    "websites:revision": "GET sites/{name}/revisions/, GET revisions/{id}/files/",
    "websites:set_back": "POST sites/{name}/set-back/",
    "deployments:disable": "POST sites/{name}/disable/",
    "deployments:empty-cache": "POST sites/{name}/empty-cache/",
    "deployments:main-file": "POST web-servers/{id}/main-file/",
    "deployments:overwrite": "POST drifts/{id}/overwrite/",
    "deployments:drift": "GET drifts/, GET pins/",
    "deployments:drift-checks": "GET host-jobs/",
    "deployments:drift-check": "POST hosts/bulk/",
    "deployments:drift-detail": "GET drifts/{id}/",
    "deployments:drift-adopt": "POST drifts/{id}/adopt/",
    "imports:adopt_edit": "POST drifts/{id}/adopt-settings/",
    "deployments:pin-release": "DELETE pins/{id}/",
    "deployments:windows": "GET change-windows/",
    "deployments:window-add": "POST change-windows/",
    "deployments:window": "PATCH change-windows/{id}/",
    "deployments:window-delete": "DELETE change-windows/{id}/",
    "deployments:maintenance": "POST maintenance/",
    "deployments:maintenance-end": "POST maintenance/end/",
    "placements:list": "GET placements/",
    "placements:detail": "GET placements/{name}/, POST placements/",
    "placements:plan": "POST placements/plan/",
    "placements:delete": "DELETE placements/{name}/",
    "publishing:content": "GET releases/",
    "publishing:upload": "POST publications/",
    "publishing:git": "POST publications/",
    "publishing:again": "POST publications/",
    "publishing:detail": "GET publications/{uuid}/",
    "publishing:cancel": "POST jobs/{uuid}/cancel/",
    "previews:request": "POST previews/",
    "previews:detail": "GET previews/{uuid}/",
    "previews:cancel": "POST jobs/{uuid}/cancel/",
    "rollouts:list": "GET rollouts/",
    "rollouts:start": "POST rollouts/",
    "rollouts:detail": "GET rollouts/{uuid}/",
    "rollouts:pause": "POST rollouts/{uuid}/pause/",
    "rollouts:resume": "POST rollouts/{uuid}/resume/",
    "rollouts:approve": "POST rollouts/{uuid}/approve/",
    "rollouts:end": "POST rollouts/{uuid}/end/",
    "rollouts:undo": "POST rollouts/{uuid}/undo/",
    "benchmarks:list": "GET runs/",
    "benchmarks:run-create": "POST runs/",
    "benchmarks:compare": "GET runs/compare/",
    "benchmarks:scenarios": "GET scenarios/",
    "benchmarks:quick": "POST scenarios/quick/",
    "benchmarks:scenario-new": "POST scenarios/",
    "benchmarks:scenario-create": "POST scenarios/",
    "benchmarks:scenario-check": "POST scenarios/",  # with dry_run=true
    "benchmarks:scenario": "GET scenarios/{id}/, GET scenarios/{id}/history/, GET runs/",
    "benchmarks:scenario-edit": "PATCH scenarios/{id}/",
    "benchmarks:scenario-delete": "DELETE scenarios/{id}/",
    "benchmarks:detail": "GET runs/{uuid}/, GET runs/{uuid}/rounds/",
    "benchmarks:cancel": "POST runs/{uuid}/cancel/",
    "benchmarks:again": "POST runs/{uuid}/repeat/",
    "benchmarks:delete": "DELETE runs/{uuid}/",
    "benchmarks:output": "GET runs/{uuid}/rounds/{target}/{number}/output/",
    "benchmarks:export-json": "GET runs/{uuid}/export.json/",
    "benchmarks:export-csv": "GET runs/{uuid}/export.csv/",
    "benchmarks:suites": "GET suites/",
    "benchmarks:suite-compare": "GET suites/compare/",
    "benchmarks:suite-start": "POST suites/",
    "benchmarks:suite-expected": "POST suites/",  # with dry_run=true: expected_s
    "benchmarks:suite": "GET suites/{uuid}/, GET suites/{uuid}/tables/",
    "benchmarks:suite-cancel": "POST suites/{uuid}/cancel/",
    "benchmarks:suite-again": "POST suites/{uuid}/repeat/",
    "benchmarks:suite-delete": "DELETE suites/{uuid}/",
    "benchmarks:suite-json": "GET suites/{uuid}/export.json/",
    "benchmarks:suite-report": "GET suites/{uuid}/report.html/",
    "benchmarks:suite-csv": "GET suites/{uuid}/export.csv/",
    "reports:list": "GET reports/",
    "reports:create": "POST reports/",
    "reports:schedules": "GET schedules/",
    "reports:dates": "GET schedules/dates/",
    "reports:schedule-new": "POST schedules/",
    "reports:schedule-create": "POST schedules/",
    "reports:schedule-check": "POST schedules/",  # with dry_run=true
    "reports:schedule": "GET schedules/{id}/, GET schedules/{id}/occurrences/",
    "reports:schedule-edit": "PATCH schedules/{id}/",
    "reports:schedule-pause": "POST schedules/{id}/pause/",
    "reports:schedule-resume": "POST schedules/{id}/resume/",
    "reports:schedule-run": "POST schedules/{id}/run-now/",
    "reports:schedule-delete": "DELETE schedules/{id}/",
    "reports:detail": "GET reports/{uuid}/, GET reports/{uuid}/deliveries/",
    "reports:download": "GET reports/{uuid}/report.html/, GET reports/{uuid}/report.pdf/",
    "reports:send": "POST reports/{uuid}/send/",
    "reports:delete": "DELETE reports/{uuid}/",
    "websites:comparisons": "GET comparisons/, POST comparisons/",
    "websites:comparisons_replay": "GET comparisons/replay/",
    "certificates:accounts": "GET acme-accounts/",
    "certificates:account_add": "POST acme-accounts/",
    "certificates:account_delete": "DELETE acme-accounts/{name}/",
    "certificates:calendar": "GET certificates/",
    "certificates:on_host": "GET host-certificates/, GET certificate-readings/",
    "certificates:revoke": "POST automatic-https/{site}/revoke/",
    "certificates:account_key_change": "POST acme-accounts/{name}/change-key/",
    "certificates:account_deactivate": "POST acme-accounts/{name}/deactivate/",
    "websites:access_lists": "GET access-lists/",
    "websites:access_list_add": "POST access-lists/",
    "websites:access_list": "GET access-lists/{name}/, PATCH access-lists/{name}/",
    "websites:access_list_delete": "DELETE access-lists/{name}/",
    "websites:header_sets": "GET header-sets/",
    "websites:header_set_add": "POST header-sets/",
    "websites:header_set": "GET header-sets/{name}/, PATCH header-sets/{name}/",
    "websites:header_set_delete": "DELETE header-sets/{name}/",
    "websites:directive_sets": "GET directive-sets/",
    "websites:directive_set_add": "POST directive-sets/",
    "websites:directive_set": "GET directive-sets/{name}/, PATCH directive-sets/{name}/",
    "websites:directive_set_delete": "DELETE directive-sets/{name}/",
    "certificates:dns_accounts": "GET dns-accounts/",
    "certificates:dns_account_add": "POST dns-accounts/",
    "certificates:dns_account": "GET dns-accounts/{name}/, PATCH dns-accounts/{name}/",
    "certificates:dns_account_test": "POST dns-accounts/{name}/test/",
    "certificates:dns_account_delete": "DELETE dns-accounts/{name}/",
    "certificates:site": "GET automatic-https/{site}/, POST automatic-https/",
    "certificates:live": "GET automatic-https/{site}/",
    "certificates:order": "POST automatic-https/{site}/order/",
    "certificates:disable": "DELETE automatic-https/{site}/",
    "comparisons:detail": "GET comparisons/{uuid}/",
    "comparisons:cancel": "POST comparisons/{uuid}/cancel/",
    "comparisons:again": "POST comparisons/{uuid}/repeat/",
    "comparisons:delete": "DELETE comparisons/{uuid}/",
    "comparisons:switch": "POST comparisons/{uuid}/switch/",
    "comparisons:switch-plan": "POST comparisons/{uuid}/switch/",
}
_SECRETS = "what it asks for or shows is a secret of the person at the browser"
_SESSIONS = "about sessions of browsers; programs have tokens, which GET tokens/ lists"
ALONE = {
    "accounts:setup": "makes the first account; before that there is nobody whom the API could answer",
    "enrollments:enroll": "requested by a new host with its one-time token; the host has no account",
    "enrollments:ready": "requested by a new host with its one-time token; the host has no account",
    "accounts:link": "sets a password for somebody without a session; programs have tokens",
    "accounts:forgotten": "asks for a link for somebody without a session; programs have tokens",
    "accounts:login": "begins a session; programs have tokens",
    "accounts:code": "begins a session; programs have tokens",
    "accounts:logout": "ends a session; a token is revoked",
    "accounts:sudo": _SECRETS,
    "accounts:password": _SECRETS,
    "accounts:sessions": _SESSIONS,
    "accounts:session_end": _SESSIONS,
    "accounts:sessions_end": _SESSIONS,
    "accounts:second_factor": _SECRETS,
    "accounts:recovery_codes": _SECRETS,
    "accounts:second_factor_off": _SECRETS,
    "accounts:settings": "leads to other pages",
    "help": "says how the pages are used",
}
# Forms that are neither the body of one operation nor filters of a list.
FORMS_ALONE = {
    "SetupForm": ALONE["accounts:setup"],
    "LoginForm": ALONE["accounts:login"],
    "CodeForm": _SECRETS,
    "SudoForm": _SECRETS,
    "ForgottenForm": ALONE["accounts:forgotten"],
    "NewPasswordForm": ALONE["accounts:link"],
    "PasswordForm": _SECRETS,
    "LogSearchForm": "the parameters search and day of GET sites/{name}/logs/ and GET hosts/{name}/logs/",
    "SiteCreateForm": "writes a definition: POST sites/ takes that itself, whatever members it has",
    "SiteServerForm": "its one field is a member of PATCH sites/{name}/",
    "DriftCheckForm": "chooses the hosts of POST hosts/bulk/",
    "ExplainForm": "its one field is the parameter of GET sites/{name}/explain/",
}
FORMS = {
    "MailServerForm": "PUT mail-server/",
    "PublishForm": "POST publications/",
    "ContentUploadForm": "POST publications/",
    "ContentGitForm": "POST publications/",
    "ProfileForm": "PATCH me/",
    "UserForm": "POST users/",
    "TeamForm": "POST teams/",
    "TokenForm": "POST tokens/",
    "EnrollmentForm": "POST enrollments/",
    "SavedViewForm": "POST saved-views/",
    "HostForm": "PATCH hosts/{name}/",
    "SiteEditForm": "PATCH sites/{name}/",
    "SiteCloneForm": "POST sites/{name}/clone/",
    "SitesMoveForm": "POST sites/bulk/",
    "TagsChangeForm": "POST hosts/bulk/",
    "BlockForm": "POST blocks/",
    "LocationForm": "POST blocks/{id}/locations/",
    "UpstreamForm": "POST upstreams/",
    "PhpPoolForm": "POST php-pools/",
    "StreamServerForm": "POST stream-servers/",
    "SnippetForm": "POST snippets/",
    "SharedNameForm": "POST allowances/",
    "LocalServiceForm": "POST allowances/",
    "CertificateUploadForm": "POST certificates/",
    "CertificateReplaceForm": "PUT certificates/{name}/",
    "CertificateExportForm": "POST certificates/{name}/pkcs12/",
    "SelfSignForm": "POST certificates/self-sign/",
    "ScenarioForm": "POST scenarios/",
    "RunForm": "POST runs/",
    "ScheduleForm": "POST schedules/",
    "SuiteForm": "POST suites/",
    "ComparisonForm": "POST comparisons/",
    "AccountForm": "POST acme-accounts/",
    "AccessListForm": "POST access-lists/",
    "HeaderSetForm": "POST header-sets/",
    "DirectiveSetForm": "POST directive-sets/",
    "DnsAccountForm": "POST dns-accounts/",
    "RevokeForm": "POST automatic-https/{site}/revoke/",
    "DnsTestForm": "POST dns-accounts/{name}/test/",
    "AutomaticForm": "POST automatic-https/",
    "RolloutForm": "POST rollouts/",
    "PlacementForm": "POST placements/",
    "VirtualAddressForm": "POST virtual-addresses/",
    "FpmPoolForm": "POST fpm-pools/",
    "AuthorityForm": "POST ssh-authorities/",
    "ChangeWindowForm": "POST change-windows/",
    "MaintenanceForm": "POST maintenance/",
    "ReadForm": "POST imports/",
    "UploadForm": "POST imports/upload/",
    "AdoptForm": "POST imports/{uuid}/adopt/",
}
# Fields that a page needs and a body does not, or that are called otherwise there.
RENAMED = {
    "timezone_name": "timezone",
    "lifetime": "expires_at",
    "limit_addresses": "addresses",  # null there: from anywhere
    "baseline": "sites",  # the first of them
}
PAGE_ONLY = {"version": "is the header If-Match", "row_version": "is the header If-Match"}


def pages() -> dict[str, Address]:
    return {address.name: address for address in addresses() if not address.path.startswith(API)}


@pytest.fixture
def world(db: None) -> World:
    return build()


@pytest.fixture
def schema(world: World) -> dict[str, Any]:
    client = session_of(world.admin)
    found: dict[str, Any] = client.get(f"{API}schema/", headers={"Accept": "application/json"}).json()
    return found


def operations(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By `METHOD path`, the path as above."""
    return {
        f"{method.upper()} {path.removeprefix(API)}": operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }


def test_every_page_has_api_operation_or_reason() -> None:
    known, there = set(TWINS) | set(ALONE), set(pages())
    assert there <= known, f"say what their twins are: {sorted(there - known)}"
    assert known <= there, f"there are no such pages: {sorted(known - there)}"


def test_every_listed_api_operation_exists(schema: dict[str, Any]) -> None:
    there = operations(schema)
    wrong = [f"{name}: {twin}" for name, twins in TWINS.items() for twin in twins.split(", ") if twin not in there]
    assert not wrong, "\n".join(wrong)


def test_every_page_that_accepts_post_has_writing_api_operation(world: World) -> None:
    """Each page is tried with POST by a viewer, so that nothing changes."""
    client, wrong, writing = session_of(world.viewer), [], 0
    for name, address in pages().items():
        if name in ALONE or client.post(address.path).status_code == 405:
            continue
        writing += 1
        if not any(twin.split()[0] in UNSAFE for twin in TWINS[name].split(", ")):
            wrong.append(name)
    assert not wrong, wrong
    assert writing > 40, "pages that take a POST were not found"


def form_classes() -> dict[str, type[forms.BaseForm]]:
    """Every form that a page shows, by name; what forms are made from has subclasses."""
    found: dict[str, type[forms.BaseForm]] = {}
    for module in pkgutil.walk_packages(panel.__path__, "panel."):
        if "forms" not in module.name.split("."):
            continue
        own = vars(importlib.import_module(module.name)).values()
        classes = [value for value in own if isinstance(value, type) and issubclass(value, forms.BaseForm)]
        found |= {
            form.__name__: form for form in classes if form.__module__ == module.name and not form.__subclasses__()
        }
    return found


def test_every_form_field_can_be_set_over_api(schema: dict[str, Any]) -> None:
    there, wrong = operations(schema), []
    classes = {name: form for name, form in form_classes().items() if not name.endswith("FilterForm")}
    classes.pop("FilterForm", None)
    classes.pop(ConfirmNameForm.__name__)  # the page's way of asking twice
    assert len(classes) > 15
    for name, form in classes.items():
        if name in FORMS_ALONE:
            continue
        assert name in FORMS, f"say which operation takes what {name} takes"
        body = there[FORMS[name]]["requestBody"]["content"]["application/json"]["schema"]
        members = schema["components"]["schemas"][body["$ref"].rpartition("/")[2]]["properties"]
        for field in form.base_fields:  # type: ignore[attr-defined]
            if field not in PAGE_ONLY and RENAMED.get(field, field) not in members:
                wrong.append(f"{name}.{field}: {FORMS[name]} has no such member")
    assert not wrong, "\n".join(wrong)


def test_api_operations_of_pages_require_authentication(world: World) -> None:
    """API operations require a caller, as their pages do."""
    for path in ("hosts/zhost/logs/", "self-check/", "me/"):
        assert Client().get(f"{API}{path}").status_code == 401
