"""Whose a path on a host is: what one team serves from or logs to, no other team's site may name.

Site roots and log folders are shared by all teams on a host, and the server reads them all. So a path that a team's
site uses is that team's, with all above and below it; an administrator may decide otherwise. Paths are compared as
text: links on the host are not followed (the agent's own checks do that when it reads a log).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from django.db.models import F, Model
from django.utils.translation import gettext as _

from panel.accounts.models import Team
from panel.hosts.models import EngineInstall, Host
from panel.rendering import snippets
from panel.rendering.spec import SiteSpec
from panel.websites.models import Location, RawSnippet, ServerBlock, Site

LOGS = ("access_log", "error_log")
BLOCK = ("root", *LOGS)
LOCATION = ("root", "alias")
# Written for all sites of a server, whatever their team; the names that the servers' packages give them.
_COMMON_LOGS = ("access.log", "error.log", "other_vhosts_access.log", "stderr.log")

# Apps that build on this one (deployments) say here which paths a site serves on a host already: they were allowed
# when they were deployed, perhaps by an administrator, and its operators may go on deploying them.
standing: list[Callable[[Site, Host], set[str]]] = []


def log_on(path: str, old: EngineInstall | None, new: EngineInstall | None) -> str:
    """Where a log of a site that leaves `old` lies on `new`: at the same place below that server's own log folder.

    Every server writes below its own folder only, so a log that stayed behind would keep the site from moving.
    """
    if old is None or new is None or old == new:
        return path
    there, here = new.paths.get("log_dir", ""), old.paths.get("log_dir", "")
    if not there or not here or not PurePosixPath(path).is_relative_to(here):
        return path
    return str(PurePosixPath(there, PurePosixPath(path).relative_to(here)))


def logs_follow(site: Site, new: EngineInstall) -> None:
    """`site`, still on its former server, is given to `new`: its draft names its logs where `log_on` puts them."""
    for block in site.blocks.all():
        logs = {name: log_on(getattr(block, name), site.install, new) for name in LOGS}
        ServerBlock.objects.filter(pk=block.pk).update(**logs)


def _members(where: str, owner: Any, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        path = getattr(owner, name)
        if path not in ("", "off"):
            yield f"{where}/{name}", path


def _named(blocks: Iterable[tuple[Any, Iterable[Any]]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for index, (block, locations) in enumerate(blocks):
        found |= _members(f"blocks/{index}", block, BLOCK)
        for number, location in enumerate(locations):
            found |= _members(f"blocks/{index}/locations/{number}", location, LOCATION)
    return found


def _raw_paths(text: str, engine: str) -> list[str]:
    """Those that raw directives of the engine name."""
    return [named.value for named in snippets.named(text, engine) if named.what == "path"]


def _raw(texts: Iterable[tuple[str, str]], engine: str) -> dict[str, str]:
    """The paths of (place, raw directives). A place with many of them has `#number` at its end."""
    found = ((where, path) for where, text in texts for path in _raw_paths(text, engine))
    return {f"{where}#{number}": path for number, (where, path) in enumerate(found)}


def site_paths(site: Site, install: EngineInstall | None = None) -> dict[str, str]:
    """The paths of `site` on its host by their place in its definition (blocks/0/root), those of its raw directives
    for `install` (by default its own web server) included. Three queries."""
    install = install or site.install
    blocks = list(site.blocks.prefetch_related("locations"))
    found = _named((block, block.locations.all()) for block in blocks)
    if install is None:
        return found
    places = {("block", block.pk): f"blocks/{index}/snippets" for index, block in enumerate(blocks)}
    for index, block in enumerate(blocks):
        for number, location in enumerate(block.locations.all()):
            places["location", location.pk] = f"blocks/{index}/locations/{number}/snippets"
    rows = RawSnippet.objects.filter(site=site.pk, engine=install.engine).order_by("pk")
    texts = rows.values_list("block", "location", "text")
    placed = ((places.get(("location", at) if at else ("block", of), "blocks"), text) for of, at, text in texts)
    return found | _raw(placed, install.engine)


def paths_on(site: Site, install: EngineInstall) -> dict[str, str]:
    """The same when `install` serves it: its logs follow."""
    found = site_paths(site, install)
    logs = tuple(f"/{name}" for name in LOGS)
    return {at: log_on(path, site.install, install) if at.endswith(logs) else path for at, path in found.items()}


def spec_paths(spec: SiteSpec, engine: str) -> dict[str, str]:
    """The same of a frozen site that a web server of that engine serves."""
    texts: list[tuple[str, str]] = []
    for index, block in enumerate(spec.blocks):
        texts.append((f"blocks/{index}/snippets", block.snippet))
        for number, location in enumerate(block.locations):
            texts.append((f"blocks/{index}/locations/{number}/snippets", location.snippet))
    return _named((block, block.locations) for block in spec.blocks) | _raw(texts, engine)


def kept_paths(site: Site | None, team: Team, host: Host | None) -> set[str]:
    """What `site` names already on `host` for `team`: naming it again changes nothing."""
    if site is None or site.install is None or host is None:
        return set()
    if site.team_id != team.pk or site.install.host_id != host.pk:
        return set()
    return set(site_paths(site).values())


def standing_paths(site: Site, host: Host) -> set[str]:
    return {path for paths in standing for path in paths(site, host)}


def _rows(model: type[Model], names: tuple[str, ...], to_site: str, team: Team, host: Host) -> Iterator[str]:
    rows = model._default_manager.filter(**{f"{to_site}__install__host": host}).exclude(**{f"{to_site}__team": team})
    for row in rows.order_by().values_list(*names).distinct():
        yield from (path for path in row if path not in ("", "off"))


def _taken(team: Team, host: Host) -> Iterator[PurePosixPath]:
    """Every path on `host` that is not for `team`: other teams' sites, enabled or not, and the servers' own logs."""
    for path in _rows(ServerBlock, BLOCK, "site", team, host):
        yield PurePosixPath(path)
    for path in _rows(Location, LOCATION, "block__site", team, host):
        yield PurePosixPath(path)
    raw = RawSnippet.objects.filter(site__install__host=host, engine=F("site__install__engine"))
    for engine, text in raw.exclude(site__team=team).order_by().values_list("engine", "text").distinct():
        yield from map(PurePosixPath, _raw_paths(text, engine))
    for paths in EngineInstall.objects.filter(host=host).values_list("paths", flat=True):
        if folder := paths.get("log_dir"):
            yield from (PurePosixPath(folder, name) for name in _COMMON_LOGS)


def foreign_paths(paths: Iterable[str], team: Team, host: Host) -> set[str]:
    """Those of `paths` that equal, lie in or contain a path on `host` that is not `team`'s. Four queries."""
    asked = set(paths)
    if not asked:
        return set()
    taken = set(_taken(team, host))
    above = {parent for path in taken for parent in path.parents}
    return {
        path
        for path in asked
        if (own := PurePosixPath(path)) in taken or own in above or not taken.isdisjoint(own.parents)
    }


def refusal(path: str, host: Host) -> str:
    """Names only what was asked for: whose files they are is not for everyone to know."""
    return _(
        "%(path)s on %(host)s overlaps with files of another team. Enter another path, or ask an "
        "administrator to make this change."
    ) % {"path": path, "host": host}
