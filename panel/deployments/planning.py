"""What a deployment would do, worked out before anything is done: every file, its difference, and what to know.

A plan is stored as JSON with its deployment:

    {"sites":    [{"id", "name", "install", "number", "previous"}],     number null: taken off the host
     "installs": [id],                                                 in the order they are reloaded
     "files":    [{"path", "site", "install", "action": put|link|remove|keep, "mode", "sha256", "link", "secret",
                   "old_sha256", "expect", "found_sha256", "diff"}],
     "warnings": [{"site", "where", "text", "nearest"}],     what the server cannot say, and what stands instead
     "drifted":  [path],            edited on the host since the last deployment
     "checked":  bool, "unchecked": why the host could not be asked,
     "after":    {...}}             what services do with the rows when it is confirmed or has succeeded
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from panel import rendering
from panel.core.errors import ApplicationError
from panel.deployments import diffs, host_agent
from panel.deployments.models import InstallState, PinnedFile, Revision, SiteState, SiteStatus
from panel.deployments.rendered import FileRecord, blobs_keep, contents, records_of, spec_of
from panel.hosts.models import EngineInstall, Host, HostStatus
from panel.rendering.capabilities import differences
from panel.rendering.spec import SiteSpec
from panel.websites import freeze
from panel.websites.models import Site

LIVE = (SiteStatus.LIVE, SiteStatus.DRIFTED)
LOOKS_AT_ONCE = 32  # hosts; most of the time of each is waiting


@dataclass(frozen=True)
class Change:
    """One site from what stands (`old`) to what will stand (`new`); None: nothing."""

    site: Site
    old: Revision | None
    new: Revision | None


@dataclass
class _Entry:
    """One path of a plan."""

    path: str
    site: str
    install: int
    old: FileRecord | None
    new: FileRecord | None
    found: host_agent.Found | None = None

    @property
    def action(self) -> str:
        if self.new is None:
            return "remove"
        if self.new == self.old and self.found is None:
            return "keep"
        return "link" if self.new.link else "put"

    @property
    def expect(self) -> str:
        """What must lie there: a SHA-256, "link:TARGET", or "" for nothing."""
        if self.found is not None:
            return self.found.sha256
        if self.old is None:
            return ""
        return signature(self.old)

    def as_change(self, shown: dict[str, Any] | None = None) -> dict[str, Any]:
        """The members that carry the change out; `shown` is the same path as it stood in the confirmed plan, whose
        findings on the host were accepted."""
        if shown and shown["found_sha256"] is not None:
            self.found = host_agent.Found(self.path, shown["found_sha256"], "")
        record = self.new or self.old
        assert record is not None
        return {
            "path": self.path,
            "site": self.site,
            "install": self.install,
            "action": self.action,
            "mode": record.mode,
            "sha256": self.new.sha256 if self.new else "",
            "link": record.link,
            "secret": record.secret,
            "old_sha256": self.old.sha256 if self.old else "",
            "expect": self.expect,
            "found_sha256": self.found.sha256 if self.found else None,
        }


def signature(record: FileRecord) -> str:
    """What the agent calls a file's state: its SHA-256, or "link:TARGET"."""
    return f"link:{record.link}" if record.link else record.sha256


def live_revision(site: Site) -> Revision | None:
    return live_revisions([site]).get(site.pk)


def live_revisions(sites: Iterable[Site]) -> dict[int, Revision]:
    """What stands of each site, by its id; a site that stands nowhere is left out."""
    rows = SiteState.objects.filter(site__in=[site.pk for site in sites], status__in=LIVE)
    states = rows.select_related("revision__install__host")
    return {state.site_id: state.revision for state in states if state.revision}


def live_states(install: EngineInstall, without: Iterable[Site] = ()) -> list[SiteState]:
    """The sites that stand on an install now, by name."""
    rows = SiteState.objects.filter(status__in=LIVE, revision__install=install).exclude(site__in=list(without))
    return list(rows.select_related("site", "revision").order_by("site__name"))


def plans_make(hosts: Mapping[Host, Sequence[Change]]) -> list[dict[str, Any]]:
    """The plan for each host, in that order. All hosts that can be reached are asked at once what lies there."""
    drafts = [_Draft(host, changes) for host, changes in hosts.items()]
    if len(drafts) == 1:
        return [_plan(drafts[0], _look(drafts[0]))]
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        return [_plan(draft, unchecked) for draft, unchecked in zip(drafts, threads.map(_look, drafts), strict=True)]


class _Draft:
    """A plan before its host was asked."""

    def __init__(self, host: Host, changes: Sequence[Change]) -> None:
        self.host = host
        self.changes = changes
        self.installs = _installs(changes)
        self.entries = [entry for change in changes for entry in _site_entries(change)]
        for install in self.installs:
            self.entries += install_entries(install, changes)


def _plan(draft: _Draft, unchecked: str) -> dict[str, Any]:
    changes, installs, entries = draft.changes, draft.installs, draft.entries
    return {
        "sites": [_site_line(change) for change in changes],
        "installs": [install.pk for install in installs],
        "files": _files(entries),
        "warnings": [line for change in changes for line in _warnings(change)],
        "drifted": [entry.path for entry in entries if entry.found is not None],
        "checked": not unchecked,
        "unchecked": unchecked,
        "after": {},
    }


def roots_of(installs: Iterable[EngineInstall]) -> list[str]:
    """What the agent may touch for these servers: their configuration folders."""
    return sorted({install.paths["config_root"] for install in installs})


def _installs(changes: Sequence[Change]) -> list[EngineInstall]:
    """Those that give sites up come first: a port must be free before another server takes it."""
    found: dict[int, EngineInstall] = {}
    for change in changes:
        if change.old and (change.new is None or change.old.install_id != change.new.install_id):
            found.setdefault(change.old.install_id, change.old.install)
    for change in changes:
        if change.new:
            found.setdefault(change.new.install_id, change.new.install)
    return list(found.values())


def _site_line(change: Change) -> dict[str, Any]:
    revision = change.new or change.old
    return {
        "id": change.site.pk,
        "name": change.site.name,
        "install": str(revision.install) if revision else "",
        "number": change.new.number if change.new else None,
        "previous": change.old.number if change.old else None,
    }


def _site_entries(change: Change) -> list[_Entry]:
    old = records_of(change.old.files) if change.old else {}
    new = records_of(change.new.files) if change.new else {}
    entries = []
    for path in sorted(old.keys() | new.keys()):
        revision = change.new if path in new else change.old
        assert revision is not None
        entries.append(_Entry(path, change.site.name, revision.install_id, old.get(path), new.get(path)))
    return entries


def install_records(install: EngineInstall, changes: Sequence[Change]) -> list[FileRecord]:
    """The server's own files for all sites that will stand on it after `changes`, stored. A main configuration that
    the panel manages is not among them: it changes with the server (hosts.native), not with sites."""
    live = live_states(install, without=[change.site for change in changes])
    specs: list[SiteSpec] = [spec_of(state.revision) for state in live if state.revision]
    specs += [spec_of(change.new) for change in changes if change.new and change.new.install_id == install.pk]
    specs.sort(key=lambda spec: spec.name)
    return blobs_keep(rendering.render_install(specs, freeze.install_spec(install)))


def install_entries(install: EngineInstall, changes: Sequence[Change]) -> list[_Entry]:
    state = InstallState.objects.filter(install=install).first()
    old = records_of(state.files) if state else {}
    new = {record.path: record for record in install_records(install, changes)}
    return [_Entry(path, "", install.pk, old.get(path), new.get(path)) for path in sorted(old.keys() | new.keys())]


def _look(draft: _Draft) -> str:
    """Note on each entry what else lies there; the reason when the host could not be asked. Makes no query: it runs
    in threads, which would each open a connection to the database."""
    host, entries, roots = draft.host, draft.entries, roots_of(draft.installs)
    if host.status != HostStatus.READY:
        return host.status_detail or f"{host} is {host.get_status_display().lower()}."
    secrets = {entry.path for entry in entries for record in (entry.old, entry.new) if record and record.secret}
    expected = {entry.path: entry.expect for entry in entries}
    try:
        found = host_agent.differing(host, expected, secrets=secrets, roots=roots)
    except ApplicationError as error:
        return error.message
    for entry in entries:
        other = found.get(entry.path)
        if other is not None and not (entry.new and other.sha256 == signature(entry.new)):
            entry.found = other
    return ""


def _files(entries: Sequence[_Entry]) -> list[dict[str, Any]]:
    texts = contents(
        record.sha256 for entry in entries for record in (entry.old, entry.new) if record and not record.secret
    )
    return [_file(entry, texts) for entry in entries]


def _file(entry: _Entry, texts: dict[str, str]) -> dict[str, Any]:
    record = entry.new or entry.old
    assert record is not None
    before, after = shown(entry.old, texts), shown(entry.new, texts)
    if entry.found is not None:
        mark = entry.found.sha256
        before = secret_words(mark) if record.secret else entry.found.content or link_words(mark)
    return {**entry.as_change(), "diff": diffs.unified(before, after, entry.path)}


def secret_words(digest: str) -> str:
    """What stands for a private key wherever its text would be shown."""
    return f"(private key, sha256 {digest})" if digest else ""


def link_words(mark: str) -> str:
    """A link as a line of a diff; "" for what is not one."""
    return f"-> {mark.removeprefix('link:')}" if mark.startswith("link:") else ""


def shown(record: FileRecord | None, texts: dict[str, str]) -> str:
    if record is None:
        return ""
    if record.link:
        return link_words(signature(record))
    return secret_words(record.sha256) if record.secret else texts.get(record.sha256, "")


def _warnings(change: Change) -> list[dict[str, str]]:
    if change.new is None:
        return []
    install = change.new.install
    lines = [
        {"site": change.site.name, "where": item.field.lstrip("/"), "text": item.what, "nearest": item.nearest}
        for item in differences(spec_of(change.new), freeze.install_spec(install))
    ]
    return lines + [_pin_line(row) for row in PinnedFile.objects.filter(site=change.site, install=install)]


def _pin_line(pin: PinnedFile) -> dict[str, str]:
    text = f"{pin.path} keeps the text that was adopted from the host on {pin.created_at:%Y-%m-%d}."
    nearest = "What the panel says about this file has no effect until the text is released on the drift page."
    return {"site": pin.site.name, "where": "", "text": text, "nearest": nearest}
