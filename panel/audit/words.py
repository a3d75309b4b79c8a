"""Texts of the audit log: names of actions, kinds of objects, and URLs of their pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from panel.audit.models import AuditEntry

# Every recorded action; tests/audit/test_labels.py finds missing ones.
ACTIONS: dict[str, str | Promise] = {
    "allowance.create": _("Use of another team's name, address, or service allowed"),
    "allowance.delete": _("Allowance withdrawn"),
    "block.create": _("Server block added"),
    "block.delete": _("Server block deleted"),
    "block.update": _("Server block changed"),
    "acme_account.create": _("ACME account added"),
    "acme_account.deactivate": _("ACME account deactivated"),
    "acme_account.key_change": _("Key of an ACME account changed"),
    "acme_account.delete": _("ACME account deleted"),
    "access_list.create": _("Access list added"),
    "access_list.delete": _("Access list deleted"),
    "access_list.update": _("Access list changed"),
    "directive_set.create": _("Directive set added"),
    "directive_set.delete": _("Directive set deleted"),
    "directive_set.update": _("Directive set changed"),
    "header_set.create": _("Header set added"),
    "header_set.delete": _("Header set deleted"),
    "header_set.update": _("Header set changed"),
    "dns_account.create": _("DNS account added"),
    "dns_account.delete": _("DNS account deleted"),
    "dns_account.test": _("DNS account tested"),
    "dns_account.update": _("DNS account changed"),
    "automatic_https.disable": _("Automatic HTTPS turned off"),
    "automatic_https.enable": _("Automatic HTTPS turned on"),
    "automatic_https.order": _("Certificate ordered"),
    "certificate.delete": _("Certificate deleted"),
    "certificate.export": _("Certificate downloaded with its private key"),
    "certificate.issue": _("Certificate issued"),
    "certificate.observe": _("Certificate renewed on its host"),
    "certificate.revoke": _("Certificate revoked"),
    "certificate.refer": _("Certificate of a host added"),
    "certificate.replace": _("Certificate renewed"),
    "certificate.self_sign": _("Self-signed certificate created"),
    "certificate.upload": _("Certificate uploaded"),
    "deployment.cancel": _("Deployment cancelled"),
    "deployment.confirm": _("Deployment confirmed"),
    "deployment.end": _("Deployment ended"),
    "deployment.plan": _("Deployment planned"),
    "deployment.supersede": _("Plan replaced by a newer plan"),
    "drift.adopt": _("Drift adopted"),
    "drift.adopt_settings": _("Drift adopted as settings"),
    "host.check": _("Host check started"),
    "host.create": _("Host added"),
    "host.delete": _("Host deleted"),
    "host.enroll": _("Host enrolled"),
    "host.drift": _("Drift check started"),
    "host.install_native": _("Installation of gallop started"),
    "host.pause": _("Host paused"),
    "host.key_replaced": _("SSH key of a host replaced"),
    "host.rotate_key": _("Replacement of a host's SSH key started"),
    "host.prepare": _("Installation of application packages started"),
    "host.register": _("Panel's own host registered"),
    "host.resume": _("Host resumed"),
    "host.service": _("Web server started, stopped, or reloaded"),
    "host.tag": _("Tags of a host changed"),
    "host.teams": _("Teams of a host changed"),
    "host.trust_key": _("Host key trusted"),
    "host.trust_certificate": _("Host key trusted because of its SSH certificate"),
    "host.update": _("Host changed"),
    "ssh_authority.create": _("SSH certificate authority added"),
    "ssh_authority.delete": _("SSH certificate authority deleted"),
    "fpm_pool.create": _("PHP-FPM pool created"),
    "fpm_pool.forget": _("PHP-FPM pool deleted in the panel only"),
    "fpm_pool.remove": _("Removal of a PHP-FPM pool started"),
    "fpm_pool.undo": _("PHP-FPM pool of a failed move removed"),
    "fpm_pool.update": _("PHP-FPM pool changed"),
    "host.fpm_pool": _("Change of a PHP-FPM pool started"),
    "host.virtual_address": _("Change of a virtual address started"),
    "virtual_address.create": _("Virtual address added"),
    "virtual_address.delete": _("Virtual address deleted"),
    "virtual_address.update": _("Virtual address changed"),
    "import.adopt": _("Site adopted from its host"),
    "import.delete": _("Import deleted"),
    "import.read": _("Import started"),
    "web_server.create": _("Web server managed"),
    "web_server.delete": _("Web server no longer managed"),
    "web_server.update": _("Web server changed"),
    "location.create": _("Location added"),
    "location.delete": _("Location deleted"),
    "location.reorder": _("Locations reordered"),
    "location.update": _("Location changed"),
    "host_job.cancel": _("Host job cancelled"),
    "php_pool.create": _("PHP pool added"),
    "php_pool.delete": _("PHP pool deleted"),
    "php_pool.update": _("PHP pool changed"),
    "pin.release": _("Adopted file managed again"),
    "mail_server.delete": _("Mail server deleted"),
    "mail_server.test": _("Test mail sent"),
    "mail_server.update": _("Mail server changed"),
    "report.create": _("Report created"),
    "report.delete": _("Report deleted"),
    "report.prune": _("Old reports removed"),
    "report.send": _("Report sent again"),
    "change_window.delete": _("Change window deleted"),
    "change_window.set": _("Change window changed"),
    "maintenance.end": _("Maintenance ended"),
    "maintenance.start": _("Maintenance started"),
    "placement.copy": _("Copy of a placement saved"),
    "placement.delete": _("Placement deleted"),
    "placement.set": _("Placement changed"),
    "enrollment.create": _("Enrollment of hosts created"),
    "enrollment.revoke": _("Enrollment of hosts revoked"),
    "enrollment.use": _("Enrollment used by a host"),
    "publication.cancel": _("Publication cancelled"),
    "publication.request": _("Publication requested"),
    "release.create": _("Release stored"),
    "preview.cancel": _("Preview cancelled"),
    "preview.request": _("Preview requested"),
    "rollout.approve": _("Wave of a rollout approved"),
    "rollout.end": _("Rollout ended early"),
    "rollout.fail": _("Wave of a rollout failed"),
    "rollout.finish": _("Rollout ended"),
    "rollout.pause": _("Rollout paused"),
    "rollout.resume": _("Rollout resumed"),
    "rollout.start": _("Rollout started"),
    "rollout.undo": _("Undo of a rollout started"),
    "run.cancel": _("Benchmark run cancelled"),
    "run.create": _("Benchmark run started"),
    "run.delete": _("Benchmark run deleted"),
    "run.expire": _("Benchmark run skipped: start time missed"),
    "scenario.create": _("Scenario created"),
    "scenario.delete": _("Scenario deleted"),
    "scenario.update": _("Scenario changed"),
    "schedule.create": _("Schedule created"),
    "schedule.delete": _("Schedule deleted"),
    "schedule.pause": _("Schedule paused"),
    "schedule.resume": _("Schedule resumed"),
    "schedule.run": _("Schedule run manually"),
    "schedule.update": _("Schedule changed"),
    "second_factor.disable": _("Two-factor authentication turned off"),
    "second_factor.enable": _("Two-factor authentication turned on"),
    "second_factor.recovery_code_used": _("Recovery code used"),
    "second_factor.recovery_codes": _("Recovery codes replaced"),
    "session.begin": _("Signed in"),
    "session.end": _("Own session ended"),
    "site.cache_empty": _("Site's cache cleared"),
    "site.create": _("Site created"),
    "site.define": _("Site definition replaced"),
    "site.delete": _("Site deleted"),
    "site.web_server": _("Web server of a site changed"),
    "site.set_back": _("Draft restored to an earlier revision"),
    "site.tag": _("Tags of a site changed"),
    "site.update": _("Site changed"),
    "snippet.create": _("Raw directives added"),
    "snippet.delete": _("Raw directives deleted"),
    "snippet.update": _("Raw directives changed"),
    "suite.cancel": _("Suite run cancelled"),
    "suite.delete": _("Suite run deleted"),
    "suite.expire": _("Suite run skipped: start time missed"),
    "suite.start": _("Suite run started"),
    "team.create": _("Team added"),
    "team.delete": _("Team deleted"),
    "team.update": _("Team changed"),
    "token.create": _("API token created"),
    "token.revoke": _("API token revoked"),
    "comparison.cancel": _("Server comparison cancelled"),
    "comparison.create": _("Server comparison started"),
    "comparison.delete": _("Server comparison deleted"),
    "comparison.switch": _("Site moved after a server comparison"),
    "stream_server.create": _("Stream server added"),
    "stream_server.delete": _("Stream server deleted"),
    "stream_server.update": _("Stream server changed"),
    "upstream.create": _("Upstream added"),
    "upstream.delete": _("Upstream deleted"),
    "upstream.follow": _("Servers of an upstream follow hosts by tags"),
    "upstream.update": _("Upstream changed"),
    "user.create": _("Account added"),
    "user.delete": _("Account deleted"),
    "user.link": _("Link to set a password created"),
    "user.password": _("Password changed"),
    "user.profile": _("Own profile changed"),
    "user.setup": _("First account created"),
    "user.update": _("Account changed"),
    "view.delete": _("Saved view deleted"),
    "view.save": _("Saved view created"),
}

KINDS: dict[str, str | Promise] = {
    "accounts.apitoken": _("API token"),
    "accounts.savedview": _("Saved view"),
    "accounts.team": _("Team"),
    "accounts.user": _("Account"),
    "benchmarks.run": _("Benchmark run"),
    "benchmarks.scenario": _("Scenario"),
    "benchmarks.suiterun": _("Suite run"),
    "core.mailserver": _("Mail server"),
    "deployments.changewindow": _("Change window"),
    "deployments.deployment": _("Deployment"),
    "deployments.drift": _("Drift"),
    "deployments.pinnedfile": _("Adopted file"),
    "enrollments.enrollment": _("Enrollment"),
    "fpm.fpmpool": _("PHP-FPM pool"),
    "hosts.sshauthority": _("SSH certificate authority"),
    "hosts.webserver": _("Web server"),
    "hosts.host": _("Host"),
    "imports.import": _("Import"),
    "reports.report": _("Report"),
    "reports.schedule": _("Schedule"),
    "comparisons.comparison": _("Server comparison"),
    "publishing.publication": _("Publication"),
    "publishing.release": _("Release"),
    "previews.preview": _("Preview"),
    "rollouts.rollout": _("Rollout"),
    "websites.allowance": _("Allowance"),
    "websites.certificate": _("Certificate"),
    "websites.location": _("Location"),
    "websites.phppool": _("PHP pool"),
    "websites.rawsnippet": _("Raw directives"),
    "websites.serverblock": _("Server block"),
    "websites.site": _("Site"),
    "websites.streamserver": _("Stream server"),
    "websites.upstream": _("Upstream"),
}

# Page of an object: the name of its URL, and the fields for its parameters.
_PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "accounts.team": ("accounts:team", ("pk",)),
    "accounts.user": ("accounts:user", ("pk",)),
    "benchmarks.run": ("benchmarks:detail", ("uuid",)),
    "benchmarks.scenario": ("benchmarks:scenario", ("pk",)),
    "deployments.deployment": ("deployments:detail", ("uuid",)),
    "deployments.drift": ("deployments:drift-detail", ("pk",)),
    "fpm.fpmpool": ("fpm:pool", ("site__name",)),
    "hosts.webserver": ("hosts:detail", ("host__name",)),
    "hosts.host": ("hosts:detail", ("name",)),
    "reports.report": ("reports:detail", ("uuid",)),
    "reports.schedule": ("reports:schedule", ("pk",)),
    "comparisons.comparison": ("comparisons:detail", ("uuid",)),
    "publishing.publication": ("publishing:detail", ("uuid",)),
    "publishing.release": ("publishing:content", ("site__name",)),
    "previews.preview": ("previews:detail", ("uuid",)),
    "rollouts.rollout": ("rollouts:detail", ("uuid",)),
    "websites.certificate": ("websites:certificate", ("name",)),
    "websites.location": ("websites:location", ("block__site__name", "pk")),
    "websites.phppool": ("websites:php_edit", ("site__name", "pk")),
    "websites.rawsnippet": ("websites:snippet", ("site__name", "pk")),
    "websites.serverblock": ("websites:block", ("site__name", "pk")),
    "websites.site": ("websites:detail", ("name",)),
    "websites.streamserver": ("websites:streams_edit", ("site__name", "pk")),
    "websites.upstream": ("websites:upstreams_edit", ("site__name", "pk")),
}
_ADMINISTRATION = {"accounts.team", "accounts.user"}


def action_words(action: str) -> str:
    """Return the text of an action: `site.update` -> `Site changed`; unknown actions stay as they are."""
    return str(ACTIONS.get(action, action))


def actions_named(words: str) -> list[str]:
    """Return the codes of actions that contain the searched text in their code or description, ignoring case."""
    return [action for action, name in ACTIONS.items() if words.lower() in f"{action} {name}".lower()]


def kind_words(object_type: str) -> str:
    return str(KINDS.get(object_type, object_type))


@dataclass(frozen=True)
class Told:
    """An audit entry with its texts for display.
    `url` is the page of the changed object; "" if the object no longer exists, or has no page that the user can see.
    """

    entry: AuditEntry
    action: str
    kind: str
    url: str


def told(entries: Iterable[AuditEntry], *, is_admin: bool) -> list[Told]:
    """Return audit entries with their texts and page URLs for display, with one query for each kind of object."""
    rows = list(entries)
    urls = _urls(rows, is_admin)
    return [
        Told(row, action_words(row.action), kind_words(row.object_type), urls.get((row.object_type, row.object_id), ""))
        for row in rows
    ]


def _urls(entries: list[AuditEntry], is_admin: bool) -> dict[tuple[str, str], str]:
    wanted: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        if entry.object_type in _PAGES and (is_admin or entry.object_type not in _ADMINISTRATION):
            wanted[entry.object_type].add(entry.object_id)
    found: dict[tuple[str, str], str] = {}
    for label, ids in wanted.items():
        name, fields = _PAGES[label]
        rows: Any = apps.get_model(label)._default_manager.filter(pk__in=ids).values_list("pk", *fields)
        found |= {(label, str(pk)): reverse(name, args=values) for pk, *values in rows}
    return found
