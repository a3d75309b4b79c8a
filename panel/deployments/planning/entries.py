"""Compute the PlanFile of one path of a plan from its state before and after. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from panel.deployments.host_agent import Found
from panel.deployments.plan import FileAction, FileRecord, PlanFile
from panel.deployments.planning import diffs


@dataclass
class Entry:
    """One path of a plan: its deployed record before (`old`) and after (`new`). `found` is the state on the host, if it
    differs from the expected one.
    """

    path: str
    site: str
    web_server: int
    old: FileRecord | None
    new: FileRecord | None
    found: Found | None = None
    keeps_owner: bool = False  # a file that Paddock did not create

    @property
    def record(self) -> FileRecord:
        return self.new or self.old or FileRecord(self.path, 0o644)

    @property
    def action(self) -> FileAction:
        if self.new is None:
            return FileAction.REMOVE
        if self.new == self.old and self.found is None:
            return FileAction.KEEP
        return FileAction.LINK if self.new.link else FileAction.PUT

    @property
    def expect(self) -> str:
        """State that the path must have on the host before the change: a SHA-256, "link:TARGET", or "" for nothing."""
        if self.found is not None:
            return self.found.sha256
        if self.old is None:
            return ""
        return signature(self.old)

    def as_file(self, shown: PlanFile | None = None) -> PlanFile:
        """Return the PlanFile of the path, without its diff. `shown` is the path's PlanFile in the confirmed plan, with
        the state on the host that the admin accepted.
        """
        if shown and shown.found_sha256 is not None:
            self.found = Found(self.path, shown.found_sha256, "")
        record = self.record
        return PlanFile(
            path=self.path,
            site=self.site,
            web_server=self.web_server,
            action=self.action,
            mode=record.mode,
            sha256=self.new.sha256 if self.new else "",
            link=record.link,
            secret=record.secret,
            keep_owner=self.keeps_owner,
            old_sha256=self.old.sha256 if self.old else "",
            expect=self.expect,
            found_sha256=self.found.sha256 if self.found else None,
        )


def signature(record: FileRecord) -> str:
    """Return the state of a file in the agent's notation: its SHA-256, or "link:TARGET"."""
    return f"link:{record.link}" if record.link else record.sha256


def plan_file(entry: Entry, texts: dict[str, str]) -> PlanFile:
    """Return the PlanFile of a path with its diff; `texts` are file contents by SHA-256."""
    record = entry.record
    before, after = shown(entry.old, texts), shown(entry.new, texts)
    if entry.found is not None:
        mark = entry.found.sha256
        before = secret_words(mark) if record.secret else entry.found.content or link_words(mark)
    return replace(entry.as_file(), diff=diffs.unified(before, after, entry.path))


def secret_words(digest: str) -> str:
    """Return the text that a diff shows instead of a private key or a password file; "" for an empty digest."""
    return f"(secret, sha256 {digest})" if digest else ""


def link_words(mark: str) -> str:
    """Return the state `link:TARGET` as a line of a diff; "" for other states."""
    return f"-> {mark.removeprefix('link:')}" if mark.startswith("link:") else ""


def shown(record: FileRecord | None, texts: dict[str, str]) -> str:
    if record is None:
        return ""
    if record.link:
        return link_words(signature(record))
    return secret_words(record.sha256) if record.secret else texts.get(record.sha256, "")
