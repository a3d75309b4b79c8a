"""Compute the plan of a deployment: every file, its diff, and the warnings (plan.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

from panel import rendering
from panel.core.errors import ApplicationError
from panel.deployments import host_agent
from panel.deployments.execution.probes import logs_of
from panel.deployments.models import PinnedFile, Revision, SiteState, WebServerState
from panel.deployments.plan import FileAction, FileRecord, Plan, PlanAddress, PlanFile, PlanPool, PlanSite, PlanWarning
from panel.deployments.planning import placeholders, prerequisites, resolved_names
from panel.deployments.planning.changes import Change
from panel.deployments.planning.disabled_files import disabled_records
from panel.deployments.planning.domain_names import names_elsewhere, new_names
from panel.deployments.planning.entries import Entry, plan_file, signature
from panel.deployments.planning.replacing import Taken, replaced
from panel.deployments.planning.selectors import live_states
from panel.deployments.revisions.rendered import (
    blobs_keep,
    contents,
    has_stream_servers,
    records_of,
    spec_of,
    specs_load,
)
from panel.hosts.authorities import authorities_once
from panel.hosts.models import Host, HostStatus, WebServer
from panel.rendering.capabilities import differences, place
from panel.rendering.errors import NotExpressible
from panel.rendering.fpm import socket_of
from panel.rendering.spec import RenderedFile, SiteSpec
from panel.websites import web_server_specs
from panel.websites.models import Certificate, Site
from panel.websites.selectors import certificates_expired

Log = tuple[str, str, str]  # site, name of the server block, path of its access log
LOOKS_AT_ONCE = 64  # hosts; nearly all of the time is waiting


def plans_make(
    hosts: Mapping[Host, Sequence[Change]], *, only_changes: bool = False, pools: Sequence[PlanPool] = ()
) -> list[Plan]:
    """Return one plan per host, in the order of `hosts`, with a constant number of database queries.

    All reachable hosts are asked at the same time. With `only_changes`, the plans leave out files that the deployment
    does not change, even if these files were edited on the host. Sockets of `pools` are no missing prerequisites.
    """
    specs_load(change.old for changes in hosts.values() for change in changes if change.old)
    drafts = [_Draft(host, changes) for host, changes in hosts.items()]
    groups = {web_server: draft.changes for draft in drafts for web_server in draft.web_servers}
    needing = [web_server for web_server, changes in groups.items() if changes_shared_files(web_server, changes)]
    entries = web_server_entries(groups, live_states(needing, groups))
    taken = replaced([change for draft in drafts for change in draft.changes])
    for draft in drafts:
        draft.take([row for web_server in draft.web_servers for row in taken.get(web_server.pk, ())])
        draft.entries += [entry for web_server in draft.web_servers for entry in entries[web_server.pk]]
        if only_changes:
            draft.entries = [entry for entry in draft.entries if entry.old != entry.new]
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        with authorities_once():
            answers = _ask_all(drafts, threads)
        names = [threads.submit(names_elsewhere, draft.host, new_names(draft.changes)) for draft in drafts]
        texts = _texts(entry for draft in drafts for entry in draft.entries)  # runs while the hosts respond
        notes = _notes(hosts.values())
        unchecked = [answer() for answer in answers]
        elsewhere = [part.result() for part in names]
    for draft, warnings in zip(drafts, elsewhere, strict=True):
        resolved_names.refuse(draft.host, draft.changes, draft.refused)
        draft.add_placeholders()
        made = placeholders.made_folders(draft.placeholders) | {(pool.site, socket_of(pool.name)) for pool in pools}
        draft.observed = [*prerequisites.warnings_of(draft.needs, draft.missing, made), *warnings]
    return [_plan(draft, words, texts, notes) for draft, words in zip(drafts, unchecked, strict=True)]


def _texts(entries: Iterable[Entry]) -> dict[str, str]:
    return contents(
        record.sha256 for entry in entries for record in (entry.old, entry.new) if record and not record.secret
    )


@dataclass(frozen=True)
class _Notes:
    """Database rows for warnings: adopted files by (site id, web server id), and expired certificates by site id."""

    pins: Mapping[tuple[int, int], Sequence[PinnedFile]]
    expired: Mapping[int, Sequence[Certificate]]


def _notes(groups: Iterable[Sequence[Change]]) -> _Notes:
    sites = [change.site for changes in groups for change in changes]
    pins: dict[tuple[int, int], list[PinnedFile]] = {}
    for pin in PinnedFile.objects.filter(site__in=sites):
        pins.setdefault((pin.site_id, pin.web_server_id), []).append(pin)
    return _Notes(pins, certificates_expired(sites))


class _Draft:
    """The plan of one host under construction, before the host's files are known."""

    def __init__(self, host: Host, changes: Sequence[Change]) -> None:
        self.host = host
        self.changes = changes
        self.web_servers = _web_servers(changes)
        self.entries = [entry for change in changes for entry in _site_entries(change)]
        self.refused: dict[str, str] = {}  # names of upstream servers that no site may use, with the reason
        self.busiest: list[PlanAddress] = []
        self.needs = prerequisites.needs_of(changes)
        self.observed: list[PlanWarning] = []
        self.missing: list[host_agent.Missing] = []
        self.placeholders: list[PlanFile] = []

    def logs(self) -> list[Log]:
        """Return the access logs of sites that are live on the host and stay there, as (site, host name, path)."""
        changes = [change for change in self.changes if change.old and change.new]
        return [(change.site.name, *log) for change in changes if change.new for log in logs_of(spec_of(change.new))]

    def add_placeholders(self) -> None:
        """Add placeholder pages to the plan for new sites whose document root is missing."""
        if any(item.kind == "folder" and item.state == "missing" for item in self.missing):
            new = placeholders.new_sites(self.changes)
            self.placeholders = placeholders.placeholders(self.host, self.changes, self.missing, new)

    def take(self, rows: Iterable[Taken]) -> None:
        """Add entries for the host's original files from which the plan removes the lines of adopted sites."""
        known = {entry.path: entry for entry in self.entries}
        for row in rows:
            if row.path in known:
                known[row.path].old = known[row.path].old or row.old
            elif row.always:
                self.entries.append(Entry(row.path, row.site, row.web_server, row.old, row.new, keeps_owner=True))


def _plan(draft: _Draft, unchecked: str, texts: dict[str, str], notes: _Notes) -> Plan:
    changes, web_servers = draft.changes, draft.web_servers
    # A path that stays absent needs no entry.
    entries = [entry for entry in draft.entries if entry.old or entry.new or entry.found]
    return Plan(
        sites=[_plan_site(change) for change in changes],
        web_servers=[web_server.pk for web_server in web_servers],
        files=[*_renames([plan_file(entry, texts) for entry in entries]), *draft.placeholders],
        warnings=[*draft.observed, *(warning for change in changes for warning in _warnings(change, notes))],
        drifted=[entry.path for entry in entries if entry.found is not None],
        unchecked=unchecked,
        busiest=draft.busiest,
    )


def roots_of(web_servers: Iterable[WebServer]) -> list[str]:
    """Return the folders that the agent may change for the web servers: their configuration folders."""
    return sorted({web_server.paths["config_root"] for web_server in web_servers})


def log_roots(web_servers: Iterable[WebServer]) -> set[str]:
    """Return the folders that may contain access logs of the web servers: site folders and log folders."""
    found: set[str] = set()
    for web_server in web_servers:
        found |= {*web_server.host.site_roots, web_server.paths.get("log_dir", "")}
    return found - {""}


def _web_servers(changes: Sequence[Change]) -> list[WebServer]:
    """Return the web servers of the changes. Web servers that lose sites come first, because this frees ports for the
    others.
    """
    found: dict[int, WebServer] = {}
    for change in changes:
        before = change.old or change.disabled_before
        if before and (change.new is None or before.web_server_id != change.new.web_server_id):
            found.setdefault(before.web_server_id, before.web_server)
    for change in changes:
        if change.new:
            found.setdefault(change.new.web_server_id, change.new.web_server)
    return list(found.values())


def _plan_site(change: Change) -> PlanSite:
    revision = change.new or change.old or change.disabled_before
    return PlanSite(
        id=change.site.pk,
        name=change.site.name,
        web_server=str(revision.web_server) if revision else "",
        number=change.new.number if change.new else None,
        previous=change.old.number if change.old else None,
        disabled_after=change.disabled_after.number if change.disabled_after else None,
        disabled_before=change.disabled_before.number if change.disabled_before else None,
        version=change.version,
        server_version=change.new.web_server.row_version if change.new else None,
    )


def _site_entries(change: Change) -> list[Entry]:
    old, new = _records(change.old, change.disabled_before), _records(change.new, change.disabled_after)
    # Files from which a server would load a disabled site must be absent, even if Paddock did not create them.
    gone = records_of(change.disabled_after.files).keys() if change.disabled_after else set()
    entries = []
    for path in sorted(old.keys() | new.keys() | gone):
        revision = (change.new or change.disabled_after) if path in new else (change.old or change.disabled_before)
        assert revision is not None
        entries.append(Entry(path, change.site.name, revision.web_server_id, old.get(path), new.get(path)))
    return entries


def _records(serving: Revision | None, disabled: Revision | None) -> dict[str, FileRecord]:
    if serving is not None:
        return records_of(serving.files)
    return disabled_records(disabled) if disabled else {}


def _renames(files: list[PlanFile]) -> list[PlanFile]:
    """Mark the two paths of a file that a plan renames: the plan removes one path and creates the other, with the same
    text. Renamed files have no diff.
    """
    plain = [file for file in files if file.found_sha256 is None]
    leaving = {(file.site, file.old_sha256): file for file in plain if file.action == FileAction.REMOVE}
    for file in plain:
        other = leaving.get((file.site, file.sha256)) if file.sha256 and not file.old_sha256 else None
        if other:
            file.renamed_from, other.renamed_to = other.path, file.path
            file.diff = other.diff = ""
    return files


def changes_shared_files(web_server: WebServer, changes: Iterable[Change]) -> bool:
    """Return whether the changes can affect the web server's shared files, which depend on all of its live sites."""
    revisions = (revision for change in changes for revision in (change.old, change.new) if revision)
    return rendering.shares_files(web_server.engine) or any(map(has_stream_servers, revisions))


def web_server_records(
    groups: Mapping[WebServer, Sequence[Change]], live: Mapping[int, Sequence[SiteState]]
) -> dict[int, list[FileRecord]]:
    """Render and store the shared files of web servers for all sites that are live after the changes; return their file
    records by web server id, without web servers whose shared files cannot change. `live`: sites that stay unchanged.

    Managed main configurations are not included; they change with the server (hosts.native), not with sites.
    """
    made: dict[int, list[RenderedFile]] = {}
    for web_server, changes in groups.items():
        if not changes_shared_files(web_server, changes):
            continue
        specs: list[SiteSpec] = [spec_of(state.revision) for state in live[web_server.pk] if state.revision]
        specs += [spec_of(change.new) for change in changes if change.new and change.new.web_server_id == web_server.pk]
        specs.sort(key=lambda spec: spec.name)
        try:
            made[web_server.pk] = rendering.render_web_server(specs, web_server_specs.web_server_specs(web_server))
        except NotExpressible as error:
            raise ApplicationError(f"{web_server}: {error.message}") from error
    return blobs_keep(made)


def web_server_entries(
    groups: Mapping[WebServer, Sequence[Change]], live: Mapping[int, Sequence[SiteState]]
) -> dict[int, list[Entry]]:
    """Return {web server id: plan entries of the web server's shared files}. `live` is the result of `live_states`."""
    states = WebServerState.objects.filter(web_server__in=list(groups))
    stand = {state.web_server_id: records_of(state.files) for state in states}
    entries: dict[int, list[Entry]] = {}
    made = web_server_records(groups, live)
    for pk in (web_server.pk for web_server in groups):
        old = stand.get(pk, {})
        new = {record.path: record for record in made[pk]} if pk in made else old
        entries[pk] = [Entry(path, "", pk, old.get(path), new.get(path)) for path in sorted(old.keys() | new.keys())]
    return entries


def _ask_all(drafts: Sequence[_Draft], threads: ThreadPoolExecutor) -> list[Callable[[], str]]:
    """Send requests to the hosts of all plans under construction. Return one function per plan: it waits for the
    response, stores the host's facts in the plan, and returns "" or an error message.

    Requests on open connections are sent before this function returns; hosts without an open connection are asked in
    threads.
    """
    answers: list[Callable[[], str]] = []
    for draft in drafts:
        if len(drafts) == 1 or _is_ready(draft.host):
            answers.append(_ask(draft))
        else:
            answers.append(threads.submit(copy_context().run, lambda draft: _ask(draft)(), draft).result)
    return answers


def _is_ready(host: Host) -> bool:
    return host.status == HostStatus.READY and host_agent.is_ready(host)


def _ask(draft: _Draft) -> Callable[[], str]:
    """Request the state of a plan's files from its host. Return a function that waits for the response, see `_ask_all`.

    Makes no database query: in a thread, a query would open another connection. The caller reads the SSH authorities
    beforehand, in `authorities_once`.
    """
    host, entries = draft.host, draft.entries
    if host.status != HostStatus.READY:
        words = host.status_detail or f"{host} is {host.get_status_display().lower()}."
        return lambda: words
    secrets = {entry.path for entry in entries for record in (entry.old, entry.new) if record and record.secret}
    expected = {entry.path: entry.expect for entry in entries}
    names = resolved_names.names_of(draft.changes)
    try:
        answer = host_agent.differing_ask(host, expected, secrets=secrets, roots=roots_of(draft.web_servers))
        refused = host_agent.refused_ask(host, names) if names else None
        logs = draft.logs()[: host_agent.LOGS_AT_ONCE]
        preflight = _preflight_ask(draft, logs)
    except ApplicationError as error:
        words = error.message
        return lambda: words
    return lambda: _note(draft, answer, refused) or _note_preflight(draft, logs, preflight)


def _preflight_ask(draft: _Draft, logs: Sequence[Log]) -> Callable[[], host_agent.Preflight] | None:
    needs = prerequisites.as_request(draft.needs, draft.web_servers)
    if not logs and needs is None:
        return None
    paths = [log[2] for log in logs]
    return host_agent.preflight_ask(draft.host, paths, roots=log_roots(draft.web_servers), needs=needs)


def _note_preflight(draft: _Draft, logs: Sequence[Log], preflight: Callable[[], host_agent.Preflight] | None) -> str:
    """Add the most requested paths and the unmet needs of sites to the plan, as the host reports them.
    The plan lacks them if the host does not respond in time.
    """
    if preflight is not None:
        with contextlib.suppress(ApplicationError):
            found = preflight()
            for (site, host, _path), addresses in zip(logs, found.busiest, strict=False):
                draft.busiest += [PlanAddress(site, host, address) for address in addresses]
            draft.missing = found.missing
    return ""


def _note(
    draft: _Draft,
    answer: Callable[[], dict[str, host_agent.Found]],
    refused: Callable[[float], dict[str, str]] | None,
) -> str:
    entries = draft.entries
    try:
        found = answer()
    except ApplicationError as error:
        return error.message
    for entry in entries:
        other = found.get(entry.path)
        if other is not None and not (entry.new and other.sha256 == signature(entry.new)):
            entry.found = other
    if refused is not None:
        with contextlib.suppress(ApplicationError):  # the deployment asks again with a longer timeout
            draft.refused = refused(host_agent.LOOK_TIMEOUT_S)
    return ""


def _warnings(change: Change, notes: _Notes) -> list[PlanWarning]:
    if change.new is None:
        return []
    web_server, spec, name = change.new.web_server, spec_of(change.new), change.site.name
    found = [
        PlanWarning(name, item.field.lstrip("/"), item.what, item.nearest, place(spec, item.field))
        for item in differences(spec, web_server_specs.web_server_spec_for(change.site, web_server, spec))
    ]
    found += [_pin_warning(change.site, pin) for pin in notes.pins.get((change.site.pk, web_server.pk), ())]
    found += [_expiry_warning(change.site, row) for row in notes.expired.get(change.site.pk, ())]
    # Two headers of one server block report the same warning once.
    return list({(warning.text, warning.place or warning.where): warning for warning in found}.values())


def _expiry_warning(site: Site, certificate: Certificate) -> PlanWarning:
    """Return a warning about an expired certificate of a site. An expired certificate never blocks a plan, because the
    plan may replace other certificates.
    """
    text = f"The certificate {certificate} expired on {certificate.not_after:%Y-%m-%d}, so browsers show a warning."
    return PlanWarning(site.name, "", text, "Renew the certificate, or choose another certificate.")


def _pin_warning(site: Site, pin: PinnedFile) -> PlanWarning:
    text = f"{pin.path} keeps the version that was adopted from the host on {pin.created_at:%Y-%m-%d}."
    nearest = (
        "Changes to the draft do not change this file. To let deployments write the file again, choose "
        "Manage again on the drift page."
    )
    return PlanWarning(site.name, "", text, nearest)
