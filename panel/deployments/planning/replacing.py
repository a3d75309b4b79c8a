"""Remove the lines of adopted sites from the host's original configuration files.

Adopting changes nothing on the host. The first deployment of an adopted site removes the site's lines from the original
file in the same transaction: journaled, and rolled back if the site's responses change. A file without remaining
directives is removed; for a symbolic link only the link is removed, so the admin keeps the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from panel.core.errors import Conflict
from panel.deployments.models import ReplacedFile, Revision
from panel.deployments.plan import FileRecord
from panel.deployments.planning.changes import Change
from panel.deployments.revisions.rendered import blobs_keep, contents
from panel.hosts.models import WebServer
from panel.rendering.readers import Unreadable
from panel.rendering.readers.engines import READERS
from panel.rendering.spec import RenderedFile


@dataclass(frozen=True)
class Taken:
    """An original file of the host that a plan removes or changes. `old` and `new` are its states before and after.
    Unless `always` is set, the plan contains the file only if a site writes to the same path.
    """

    path: str
    site: str
    web_server: int
    old: FileRecord
    new: FileRecord | None
    always: bool = True


def without(text: str, parts: Iterable[Mapping[str, Any]]) -> str:
    """Return `text` without the lines of `parts`: [{"first", "last"}], counted from 1. A part from 0 to -1 is empty."""
    gone = {number for part in parts for number in range(part["first"], part["last"] + 1)}
    kept = [line for number, line in enumerate(text.split("\n"), 1) if number not in gone]
    return "\n".join(kept)


def says_nothing(text: str, engine: str) -> bool:
    """Return whether a configuration text contains no directives; False if the text cannot be parsed."""
    try:
        return not READERS[engine](text)
    except Unreadable:
        return False


def _going(row: ReplacedFile, sites: Collection[int]) -> list[dict[str, object]]:
    """Return the parts of an original file to remove: those whose sites are all in `sites` (ids)."""
    return [part for part in row.parts if set(part["sites"]) <= set(sites)]


def _said(row: ReplacedFile, text: str, sites: Collection[int]) -> str:
    """Return the content of an original file after the deployment of `sites` (ids). `text` is its original content."""
    rest = without(text, _going(row, sites))
    named = {pk for part in row.parts for pk in part["sites"]}
    return f"{rest.rstrip()}\n\n{row.appends}\n" if row.appends and named & set(sites) else rest


def _open_rows(changes: Sequence[Change]) -> list[tuple[ReplacedFile, list[Change]]]:
    """Return (original file, changes) for each original file on the host from which the changes remove lines. Each of
    the changes is the first deployment of an adopted site.
    """
    starting = [change for change in changes if change.new and not change.old]
    web_servers = {change.new.web_server_id for change in starting if change.new}
    found = []
    for row in ReplacedFile.objects.filter(web_server__in=web_servers).select_related("web_server"):
        named = {pk for part in row.parts for pk in part["sites"]} - set(row.done)
        own = [
            item
            for item in starting
            if item.site.pk in named and item.new and item.new.web_server_id == row.web_server_id
        ]
        if own:
            found.append((row, own))
    return found


def replaced(changes: Sequence[Change]) -> dict[int, list[Taken]]:
    """Return {web server id: original files that the first deployments of adopted sites change}."""
    rows = _open_rows(changes)
    texts = contents(row.original_id for row, _own in rows)
    found: dict[int, list[Taken]] = {}
    for row, own in rows:
        found.setdefault(row.web_server_id, []).extend(_taken(row, own, texts[row.original_id]))
    return found


def _taken(row: ReplacedFile, own: Sequence[Change], text: str) -> list[Taken]:
    after = [*row.done, *(change.site.pk for change in own)]
    rest = _said(row, text, after)
    where, site = row.real or row.path, own[0].site.name
    old = _kept(where, _said(row, text, row.done), row.mode)
    if not says_nothing(rest, row.web_server.engine):
        return [Taken(where, site, row.web_server_id, old, _kept(where, rest, row.mode))]
    if not row.link:
        return [Taken(where, site, row.web_server_id, old, None)]
    link = FileRecord(row.path, 0o777, link=row.link)
    return [
        Taken(row.path, site, row.web_server_id, link, None),
        Taken(where, site, row.web_server_id, old, None, always=False),
    ]


def _kept(path: str, text: str, mode: int) -> FileRecord:
    return blobs_keep({0: [RenderedFile(path, text, mode)]})[0][0]


def is_taking_over(changes: Sequence[Change]) -> set[int]:
    """Return the ids of the adopted sites among the changes that are deployed for the first time."""
    return {change.site.pk for _row, own in _open_rows(changes) for change in own}


def replaced_done(revisions: Iterable[int]) -> None:
    """Record that the adopted sites of the revisions (ids) are live, so that their lines are gone from the host's
    original files.
    """
    deployed: dict[int, set[int]] = {}
    for web_server, site in (
        Revision.objects.filter(pk__in=list(revisions)).order_by().values_list("web_server", "site")
    ):
        deployed.setdefault(web_server, set()).add(site)
    for row in ReplacedFile.objects.filter(web_server__in=deployed):
        own = {pk for part in row.parts for pk in part["sites"]} & deployed[row.web_server_id]
        if own - set(row.done):
            row.done = sorted({*row.done, *own})
            row.save(update_fields=["done"])


@dataclass(frozen=True)
class Original:
    """An original configuration file on the host, from which sites are adopted.

    `parts` are lines as (first, last, ids of the sites that they define); `appends` is a line that the first deployment
    adds at the end.
    """

    path: str
    text: str
    mode: int
    real: str = ""
    link: str = ""
    parts: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    appends: str = ""


@transaction.atomic
def originals_keep(web_server: WebServer, files: Iterable[Original]) -> None:
    """Record the original files from which the first deployments of adopted sites will remove lines. Raises Conflict if
    a file changed on the host after sites were adopted from it, and before all of them were deployed.
    """
    for file in files:
        record = _kept(file.path, file.text, file.mode)
        parts = [{"first": first, "last": last, "sites": list(sites)} for first, last, sites in file.parts]
        for other in ReplacedFile.objects.filter(web_server=web_server, path=file.path).exclude(original=record.sha256):
            if {pk for part in other.parts for pk in part["sites"]} - set(other.done):
                raise Conflict(
                    f"{file.path} was changed on the host after Paddock adopted sites from the file, and these "
                    "sites are not deployed yet. Deploy or delete these sites, then import the configuration again."
                )
        values = {"real": file.real, "link": file.link, "mode": file.mode}
        row, _created = ReplacedFile.objects.get_or_create(
            web_server=web_server, path=file.path, original_id=record.sha256, defaults=values
        )
        row.parts, row.appends = [*row.parts, *parts], file.appends
        row.save(update_fields=["parts", "appends"])
