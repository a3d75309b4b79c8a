"""Placeholder pages: the first deployment of a site creates its document root if the folder is missing.

A new site then responds with a page instead of 404. The folder has to be below the host's site folders, in a place that
no other account can change, because the agent writes there as its own account.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from panel.deployments.host_agent import Missing
from panel.deployments.models import SiteState
from panel.deployments.plan import FileAction, PlanFile
from panel.deployments.planning import diffs
from panel.deployments.planning.changes import Change
from panel.deployments.planning.replacing import is_taking_over
from panel.deployments.revisions.rendered import blobs_keep, spec_of
from panel.hosts.models import Host
from panel.rendering.spec import RenderedFile

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="robots" content="noindex"><title>{name}</title></head>
<body><h1>{name}</h1><p>The files of this site have not been published yet.</p></body>
</html>
"""


def new_sites(changes: Sequence[Change]) -> set[int]:
    """Return the ids of sites that are deployed for the first time, and neither moved nor adopted from a host."""
    pks = {change.site.pk for change in changes if change.new and not change.old and not change.disabled_before}
    known = SiteState.objects.filter(site__in=pks).exclude(revision=None, disabled_revision=None)
    return pks - set(known.values_list("site", flat=True)) - is_taking_over(changes)


def placeholders(
    host: Host, changes: Iterable[Change], missing: Iterable[Missing], new: Collection[int]
) -> list[PlanFile]:
    """Return the placeholder pages that a plan creates, and store their contents. `new` are ids from `new_sites`."""
    own = {item.name for item in missing if (item.kind, item.state, item.detail) == ("folder", "missing", "own")}
    found: dict[str, PlanFile] = {}
    for change in changes:
        if change.new is None or change.site.pk not in new:
            continue
        for block in spec_of(change.new).blocks:
            index = next((name for name in block.index or ("index.html",) if name.endswith((".html", ".htm"))), "")
            if block.root in own and index and _root_of(block.root, host):
                path = f"{block.root.rstrip('/')}/{index}"
                found.setdefault(path, _file(path, change))
    return list(found.values())


def _file(path: str, change: Change) -> PlanFile:
    assert change.new is not None
    text = PAGE.format(name=escape(change.site.name))
    (record,) = blobs_keep({0: [RenderedFile(path, text)]})[0]
    return PlanFile(
        path,
        change.site.name,
        change.new.web_server_id,
        FileAction.PUT,
        record.mode,
        sha256=record.sha256,
        if_absent=True,
        diff=diffs.unified("", text, path),
    )


def placeholder_roots(files: Iterable[PlanFile], host: Host) -> set[str]:
    """Return the site folders of the host that contain the placeholder pages among the files of a plan."""
    return {root for file in files if file.if_absent and (root := _root_of(file.path, host))}


def _root_of(path: str, host: Host) -> str:
    """Return the site folder of the host that contains the path; "" if the path is outside of all site folders."""
    return next((root for root in host.site_roots if path.startswith(root.rstrip("/") + "/")), "")


def made_folders(files: Iterable[PlanFile]) -> set[tuple[str, str]]:
    """Return the folders that a plan creates with its placeholder pages `files`, as (name of the site, path)."""
    return {(file.site, file.path.rpartition("/")[0]) for file in files}
