"""Requests to agents: transactions of many deployments, built with a constant number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from agents.protocol import ApplyRequest, FileChange, Probe
from panel.deployments import host_agent
from panel.deployments.execution import comparing
from panel.deployments.execution.probes import guards_of, probes_of
from panel.deployments.execution.sending import Dispatch
from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, SiteState
from panel.deployments.plan import FileAction, FileRecord, PlanFile
from panel.deployments.planning import resolved_names
from panel.deployments.planning.changes import Change
from panel.deployments.planning.plans import Entry, live_states, roots_of, web_server_entries
from panel.deployments.planning.replacing import is_taking_over
from panel.deployments.revisions.rendered import contents, spec_of
from panel.hosts.models import WebServer

# Requests to an adopted site whose status must stay the same, or everything is rolled back; each costs a request on the
# host.
MAX_TAKEOVER_GUARDS = 100


def jobs_make(deployments: Sequence[Deployment]) -> list[Dispatch]:
    """Build the transactions from the current state, with the hosts locked, because other deployments may have ended
    after the plans were shown.

    Each web server's shared files depend on the live sites.
    """
    items: dict[int, list[DeploymentItem]] = defaultdict(list)
    rows = DeploymentItem.objects.filter(deployment__in=deployments).order_by("pk")
    rows = rows.select_related("site", "revision", "previous")
    for item in rows.defer("revision__files", "previous__files", "previous__spec"):
        items[item.deployment_id].append(item)
    wanted = {pk for deployment in deployments for pk in deployment.plan.web_servers}
    web_servers = WebServer.objects.select_related("host").in_bulk(list(wanted))
    drafts = [_Draft(row, [web_servers[pk] for pk in row.plan.web_servers], items[row.pk]) for row in deployments]
    groups = {web_server: draft.changes for draft in drafts for web_server in draft.web_servers}
    live = live_states(web_servers.values(), groups)
    entries = web_server_entries(groups, live)
    for draft in drafts:
        draft.add_web_server_files(entries)
    taking = is_taking_over([change for draft in drafts for change in draft.changes])
    texts = contents(file.sha256 for draft in drafts for file in draft.files)
    return [draft.job(texts, live, taking) for draft in drafts]


class _Draft:
    """Transaction of one deployment during construction."""

    def __init__(self, deployment: Deployment, web_servers: list[WebServer], items: list[DeploymentItem]) -> None:
        self.deployment = deployment
        self.web_servers = web_servers
        self.items = items
        self.changes = [Change(item.site, item.previous, item.revision) for item in items]
        self.is_of_main = deployment.kind == DeploymentKind.MAIN
        self.files: list[PlanFile] = [file for file in deployment.plan.files if file.site or self.is_of_main]
        self.stand: dict[int, list[FileRecord]] = {}

    def add_web_server_files(self, entries: dict[int, list[Entry]]) -> None:
        """Add the shared files of the web servers, with the state found on the host at confirmation. A main file is
        planned separately and depends on no site.
        """
        if self.is_of_main:
            return
        shown = {file.path: file for file in self.deployment.plan.files if not file.site}
        for web_server in self.web_servers:
            self.stand[web_server.pk] = [entry.new for entry in entries[web_server.pk] if entry.new]
            self.files += [entry.as_file(shown.get(entry.path)) for entry in entries[web_server.pk]]

    def _compared(self, taking: Collection[int]) -> list[Probe]:
        """Requests to sites that replace parts of the host's own files, before and after."""
        return comparing.requests_of(
            spec_of(item.revision) for item in self.items if item.revision and item.site_id in taking
        )

    def job(self, texts: dict[str, str], live: dict[int, list[SiteState]], taking: Collection[int]) -> Dispatch:
        others = [state for web_server in self.web_servers for state in live[web_server.pk]]
        probes = [
            probe
            for item in self.items
            if item.revision
            for probe in probes_of(spec_of(item.revision), item.site.health_path)
        ]
        compared = self._compared(taking)
        guards = guards_of((spec_of(state.revision), state.site.health_path) for state in others if state.revision)
        guards += compared[:MAX_TAKEOVER_GUARDS]
        request = ApplyRequest(
            transaction=str(self.deployment.uuid),
            roots=roots_of(self.web_servers),
            files=[_change(file, texts) for file in self.files if not _is_done(file)],
            engines=host_agent.controls(self.web_servers),
            probes=list(dict.fromkeys(probes)),
            guards=list(dict.fromkeys(guards)),
        )
        attempted = self.deployment.started_at is not None
        names = frozenset(resolved_names.names_of(self.changes))
        return Dispatch(self.deployment, request, self.stand, attempted, tuple(compared), names)


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
    )
