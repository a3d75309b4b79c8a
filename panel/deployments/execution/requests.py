"""Build the transactions of many deployments for the agents, with a constant number of database queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.protocol import ApplyRequest, FileChange, Probe
from panel.deployments import host_agent
from panel.deployments.execution import comparing
from panel.deployments.execution.elsewhere import Elsewhere
from panel.deployments.execution.joining import Group
from panel.deployments.execution.probes import Asked, Health, guards_of, limited, probes_of
from panel.deployments.execution.sending import Dispatch
from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, Revision, SiteState
from panel.deployments.plan import FileAction, FileRecord, Plan, PlanFile
from panel.deployments.planning import prerequisites, resolved_names
from panel.deployments.planning.changes import Change
from panel.deployments.planning.entries import Entry
from panel.deployments.planning.placeholders import placeholder_roots
from panel.deployments.planning.plans import log_roots, roots_of, web_server_entries
from panel.deployments.planning.replacing import is_taking_over
from panel.deployments.planning.selectors import live_states
from panel.deployments.revisions.rendered import contents, spec_of
from panel.hosts.models import Host, WebServer
from panel.rendering.layout import tls_files
from panel.websites.models import Certificate, Site

# Requests to an adopted site whose status must stay the same, or everything is rolled back; each costs a request on the
# host.
MAX_TAKEOVER_GUARDS = 100
# These deploy what the database holds now; an earlier revision may have had another certificate by the same name.
_WITH_CERTIFICATES = (DeploymentKind.DEPLOY, DeploymentKind.MOVE)


def jobs_make(groups: Sequence[Group]) -> list[Dispatch]:
    """Build one transaction for each group of deployments from the current state of the database.

    Other deployments may have ended since the plans were made, and each web server's shared files depend on all live
    sites. The caller has locked the hosts.
    """
    deployments = [row for group in groups for row in group]
    wanted = {pk for deployment in deployments for pk in deployment.plan.web_servers}
    web_servers = WebServer.objects.select_related("host").in_bulk(list(wanted))
    items = _items(deployments, web_servers)
    drafts = [_Draft(group, web_servers, items) for group in groups]
    changed = {web_server: draft.changes for draft in drafts for web_server in draft.web_servers}
    live = live_states(web_servers.values(), changed)
    entries = web_server_entries(changed, live)
    for draft in drafts:
        draft.add_web_server_files(entries)
    taking = is_taking_over([change for draft in drafts for change in draft.changes])
    texts = contents(file.sha256 for draft in drafts for file in draft.files)
    facts = _Facts(live, taking, _moves(deployments), _certificates(drafts))
    return [draft.job(texts, facts) for draft in drafts]


def _items(deployments: Sequence[Deployment], web_servers: Mapping[int, WebServer]) -> dict[int, list[DeploymentItem]]:
    """Return {deployment id: deployment items}; the items' revisions refer to the given `web_servers` objects."""
    items: dict[int, list[DeploymentItem]] = defaultdict(list)
    rows = DeploymentItem.objects.filter(deployment__in=deployments).order_by("pk")
    rows = rows.select_related("deployment", "site", "revision", "previous")
    for item in rows.defer("deployment__plan", "deployment__comparison", "revision__files", "previous__files"):
        for revision in (item.revision, item.previous):
            if revision and revision.web_server_id in web_servers:
                revision.web_server = web_servers[revision.web_server_id]
        items[item.deployment_id].append(item)
    return items


@dataclass(frozen=True)
class _Facts:
    """Data from the database that transactions need in addition to their deployments.

    `live` has the states of unchanged live sites by web server id. `taking` are the ids of adopted sites that are
    deployed for the first time. `moves` is the result of `_moves`, `certificates` that of `_certificates`.
    """

    live: dict[int, list[SiteState]]
    taking: Collection[int]
    moves: Mapping[int, Mapping[int, Revision]]
    certificates: Mapping[str, str]


class _Draft:
    """A transaction under construction (not a site's draft), for one deployment or for several that share the
    transaction.
    """

    def __init__(
        self, group: Group, web_servers: Mapping[int, WebServer], items: Mapping[int, list[DeploymentItem]]
    ) -> None:
        self.group = group
        self.deployment = group[0]
        self.web_servers = [web_servers[pk] for pk in dict.fromkeys(pk for row in group for pk in row.plan.web_servers)]
        self.items = [item for row in group for item in items[row.pk]]
        self.changes = [Change(item.site, item.previous, item.revision) for item in self.items]
        self.is_of_main = self.deployment.kind == DeploymentKind.MAIN
        self.is_renewal = self.deployment.kind == DeploymentKind.CERTIFICATE
        self.planned = [file for row in group for file in row.plan.files]
        self.files: list[PlanFile] = [file for file in self.planned if file.site or self.is_of_main]
        self.stand: dict[int, list[FileRecord]] = {}

    def add_web_server_files(self, entries: dict[int, list[Entry]]) -> None:
        """Add the shared files of the web servers, with the state on the host that the confirmed plan showed.
        Deployments of a main file add none.
        """
        if self.is_of_main:
            return
        shown = {file.path: file for file in self.planned if not file.site}
        for web_server in self.web_servers:
            self.stand[web_server.pk] = [entry.new for entry in entries[web_server.pk] if entry.new]
            wanted = [entry for entry in entries[web_server.pk] if entry.old != entry.new or not self.is_renewal]
            self.files += [entry.as_file(shown.get(entry.path)) for entry in wanted]

    def _compared(self, taking: Collection[int]) -> list[Probe]:
        """Return probes (test requests) for the adopted sites whose ids are in `taking`. Their responses before and
        after the first deployment are compared.
        """
        return comparing.requests_of(
            spec_of(item.revision) for item in self.items if item.revision and item.site_id in taking
        )

    def _asked(self, facts: _Facts) -> list[Asked]:
        busiest = {site: rows for row in self.group for site, rows in busiest_of(row.plan).items()}
        moves = facts.moves.get(self.deployment.pk, {})
        found = []
        for item in self.items:
            if not item.revision:
                continue
            moved = moves.get(item.site_id)
            old = item.previous or moved
            made = Asked(
                new=spec_of(item.revision),
                health=health_of(item.site),
                old=spec_of(old) if old else None,
                is_moved=moved is not None,
                takes_over=item.site_id in facts.taking,
                busiest=busiest.get(item.site.name, {}),
                certificates=facts.certificates if self.deployment.kind in _WITH_CERTIFICATES else {},
            )
            found.append(made)
        return found

    def _elsewhere(self, asked: Sequence[Asked], facts: _Facts) -> tuple[Elsewhere, ...]:
        """Return the old hosts of the sites that the transaction moves, with their sites and log folders."""
        places: dict[Host, list[Revision]] = defaultdict(list)
        for revision in facts.moves.get(self.deployment.pk, {}).values():
            places[revision.web_server.host].append(revision)
        return tuple(
            Elsewhere(
                host,
                tuple(item for item in asked if item.new.name in {row.site.name for row in rows}),
                tuple(sorted(log_roots(row.web_server for row in rows))),
            )
            for host, rows in places.items()
        )

    def job(self, texts: dict[str, str], facts: _Facts) -> Dispatch:
        others = [state for web_server in self.web_servers for state in facts.live[web_server.pk]]
        compared = self._compared(facts.taking)
        asked = self._asked(facts)
        guards = guards_of((spec_of(state.revision), health_of(state.site)) for state in others if state.revision)
        guards += [replace(probe, kind="takeover", exact=True) for probe in compared[:MAX_TAKEOVER_GUARDS]]
        request = ApplyRequest(
            transaction=str(self.deployment.joined_as or self.deployment.uuid),
            roots=sorted({*roots_of(self.web_servers), *placeholder_roots(self.files, self.deployment.host)}),
            files=[_change(file, texts) for file in self.files if not _is_done(file)],
            engines=host_agent.controls(self.web_servers),
            probes=limited(probe for item in asked for probe in probes_of(item)),
            guards=list(dict.fromkeys(guards)),
            anyway=self.deployment.anyway,
            ports=prerequisites.ports_of(self.changes),
        )
        attempted = self.deployment.started_at is not None
        names = frozenset(resolved_names.names_of(self.changes))
        elsewhere = self._elsewhere(asked, facts)
        return Dispatch(self.group, request, self.stand, attempted, tuple(compared), names, elsewhere)


def health_of(site: Site) -> Health:
    return Health(site.health_path, site.health_status, site.health_text, site.health_header)


def busiest_of(plan: Plan) -> dict[str, dict[str, list[str]]]:
    """Return {site name: {host name: [path]}}: the busiest paths that a plan found in access logs."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in plan.busiest:
        found.setdefault(row.site, {}).setdefault(row.host, []).append(row.path)
    return found


def _moves(deployments: Sequence[Deployment]) -> dict[int, dict[int, Revision]]:
    """Return {deployment id: {site id: revision on the old host}} for the sites that the deployments move."""
    if not any(deployment.kind == DeploymentKind.MOVE for deployment in deployments):
        return {}
    rows = DeploymentItem.objects.filter(deployment__waits_for__in=deployments, previous__isnull=False)
    found: dict[int, dict[int, Revision]] = defaultdict(dict)
    for item in rows.select_related("deployment", "site", "previous__web_server__host", "previous__site"):
        assert item.previous and item.deployment.waits_for_id
        found[item.deployment.waits_for_id][item.site_id] = item.previous
    return found


def _certificates(drafts: Sequence[_Draft]) -> dict[str, str]:
    """Return the SHA-256 fingerprints of the certificates that the sites present, by certificate name."""
    specs = [spec_of(item.revision) for draft in drafts for item in draft.items if item.revision]
    names = {tls.name for spec in specs for tls in tls_files(spec)}
    rows = Certificate.objects.filter(name__in=names, host=None)  # those of a host are renewed there at any time
    return dict(rows.values_list("name", "fingerprint")) if names else {}


def _is_done(file: PlanFile) -> bool:
    """Return whether a file to be removed is already absent from the host."""
    return file.action == FileAction.REMOVE and file.found_sha256 == ""


def _change(file: PlanFile, texts: dict[str, str]) -> FileChange:
    if file.action == FileAction.REMOVE:
        return FileChange(file.path, "remove", expect=file.expect, secret=file.secret)
    if file.link:
        return FileChange(file.path, "link", target=file.link, expect=file.expect)
    return FileChange(
        file.path,
        "put",
        content=texts[file.sha256],
        mode=file.mode,
        expect=file.expect,
        secret=file.secret,
        keep_owner=file.keep_owner,
        if_absent=file.if_absent,
    )
