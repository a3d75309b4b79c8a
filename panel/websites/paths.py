"""Ownership of paths on a host: a site cannot use a path that overlaps another team's files or logs.
All teams on a host share site folders and log folders, and the web server can read them all. So a path used by a team's
site, with its parents and contents, belongs to that team; an administrator may decide otherwise. Paths are compared as
text; the agent checks links on the host when it reads a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from django.db.models import F, Model
from django.utils.translation import gettext as _

from panel.accounts.models import Team
from panel.hosts.models import Host, WebServer
from panel.rendering import snippets
from panel.rendering.confined import AUTHORITIES
from panel.rendering.roots import is_below
from panel.rendering.spec import SiteSpec
from panel.websites.models import Location, RawSnippet, ServerBlock, Site

LOGS = ("access_log", "error_log")
BLOCK = ("root", *LOGS)
LOCATION = ("root", "alias")
# Default log names of the servers' packages, shared by all sites of a server.
_COMMON_LOGS = ("access.log", "error.log", "other_vhosts_access.log", "stderr.log")

# Hook for apps that depend on this one (deployments): it returns the paths that a site already serves on a host. They
# were allowed at deployment, perhaps by an administrator, so operators may deploy them again.
deployed: list[Callable[[Site, Host], set[str]]] = []


def log_on(path: str, old: WebServer | None, new: WebServer | None) -> str:
    """Return the path of a log after a site moves from web server `old` to `new`: the same place below the log folder
    of `new`.

    Every web server writes only below its own log folder, so an unchanged path would prevent the move.
    """
    if old is None or new is None or old == new:
        return path
    there, here = new.paths.get("log_dir", ""), old.paths.get("log_dir", "")
    if not there or not here or not PurePosixPath(path).is_relative_to(here):
        return path
    return str(PurePosixPath(there, PurePosixPath(path).relative_to(here)))


def logs_follow(site: Site, new: WebServer) -> None:
    """Change the log paths of `site`, which is still on its old web server, for the move to `new`."""
    for block in site.blocks.all():
        logs = {name: log_on(getattr(block, name), site.web_server, new) for name in LOGS}
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


def _authorities(servers: Iterable[Any]) -> dict[str, str]:
    """Return {"stream_servers/NUMBER/upstream_tls_ca": path} for the CA files of stream servers. Those in folders of
    the system's certificates are left out, because they are public.
    """
    return {
        f"stream_servers/{number}/upstream_tls_ca": server.upstream_tls_ca
        for number, server in enumerate(servers)
        if server.upstream_tls_ca and not is_below(server.upstream_tls_ca, AUTHORITIES)
    }


def _raw_paths(text: str, engine: str) -> list[str]:
    """Return the file paths in raw directives for the kind of web server `engine`."""
    return [named.value for named in snippets.named(text, engine) if named.what == "path"]


def _raw(texts: Iterable[tuple[str, str]], engine: str) -> dict[str, str]:
    """Return {"PLACE#NUMBER": path} for the file paths in raw directives.

    `texts` are (place in the definition, raw directives) pairs. PLACE is the place of the raw directives with the path.
    NUMBER counts the paths of all `texts` from 0.
    """
    found = ((where, path) for where, text in texts for path in _raw_paths(text, engine))
    return {f"{where}#{number}": path for number, (where, path) in enumerate(found)}


def site_paths(site: Site, web_server: WebServer | None = None) -> dict[str, str]:
    """Map each place in the definition of `site` (for example blocks/0/root) to its path on the host, including paths
    in raw directives for `web_server` (default: the site's own web server). A constant number of queries.
    """
    web_server = web_server or site.web_server
    blocks = list(site.blocks.prefetch_related("locations"))
    found = _named((block, block.locations.all()) for block in blocks) | _authorities(site.stream_servers.all())
    if web_server is None:
        return found
    places = {("block", block.pk): f"blocks/{index}/snippets" for index, block in enumerate(blocks)}
    for index, block in enumerate(blocks):
        for number, location in enumerate(block.locations.all()):
            places["location", location.pk] = f"blocks/{index}/locations/{number}/snippets"
    rows = RawSnippet.objects.filter(site=site.pk, engine=web_server.engine).order_by("pk")
    texts = rows.values_list("block", "location", "expanded")
    placed = ((places.get(("location", at) if at else ("block", of), "blocks"), text) for of, at, text in texts)
    return found | _raw(placed, web_server.engine)


def paths_on(site: Site, web_server: WebServer) -> dict[str, str]:
    """Map each place in the definition of `site` (for example blocks/0/root) to the path that the site would have on
    `web_server`, with log paths of that web server.
    """
    found = site_paths(site, web_server)
    logs = tuple(f"/{name}" for name in LOGS)
    return {at: log_on(path, site.web_server, web_server) if at.endswith(logs) else path for at, path in found.items()}


def spec_paths(spec: SiteSpec, engine: str) -> dict[str, str]:
    """Map each place in the definition of a frozen site (for example blocks/0/root) to its path.

    This includes paths in raw directives for the kind of web server `engine`.
    """
    texts: list[tuple[str, str]] = []
    for index, block in enumerate(spec.blocks):
        texts.append((f"blocks/{index}/snippets", block.snippet))
        for number, location in enumerate(block.locations):
            texts.append((f"blocks/{index}/locations/{number}/snippets", location.snippet))
    named = _named((block, block.locations) for block in spec.blocks)
    return named | _authorities(spec.stream_servers) | _raw(texts, engine)


def kept_paths(site: Site | None, team: Team, host: Host | None) -> set[str]:
    """Return the paths that `site` already uses on `host` for `team`. A change of the site is allowed to keep these
    paths.
    """
    if site is None or site.web_server is None or host is None:
        return set()
    if site.team_id != team.pk or site.web_server.host_id != host.pk:
        return set()
    return set(site_paths(site).values())


def deployed_paths(site: Site, host: Host) -> set[str]:
    return {path for paths in deployed for path in paths(site, host)}


def _rows(model: type[Model], names: tuple[str, ...], to_site: str, team: Team, host: Host) -> Iterator[str]:
    rows = model._default_manager.filter(**{f"{to_site}__web_server__host": host}).exclude(**{f"{to_site}__team": team})
    for row in rows.order_by().values_list(*names).distinct():
        yield from (path for path in row if path not in ("", "off"))


def _taken(team: Team, host: Host) -> Iterator[PurePosixPath]:
    """Yield the paths on `host` that `team` must not use: those of other teams' sites, enabled or not, and the web
    servers' shared logs.
    """
    for path in _rows(ServerBlock, BLOCK, "site", team, host):
        yield PurePosixPath(path)
    for path in _rows(Location, LOCATION, "block__site", team, host):
        yield PurePosixPath(path)
    raw = RawSnippet.objects.filter(site__web_server__host=host, engine=F("site__web_server__engine"))
    for engine, text in raw.exclude(site__team=team).order_by().values_list("engine", "expanded").distinct():
        yield from map(PurePosixPath, _raw_paths(text, engine))
    for paths in WebServer.objects.filter(host=host).values_list("paths", flat=True):
        if folder := paths.get("log_dir"):
            yield from (PurePosixPath(folder, name) for name in _COMMON_LOGS)


def foreign_paths(paths: Iterable[str], team: Team, host: Host) -> set[str]:
    """Return those of `paths` that equal, contain, or are inside a path on `host` that `team` must not use (see
    `_taken`).

    A constant number of queries.
    """
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
    """Return the error message for a path of another owner. The message names only the requested path, because its
    owner may be confidential.
    """
    return _(
        "%(path)s on %(host)s overlaps with files of another team. Enter another path, or ask an "
        "administrator to make this change."
    ) % {"path": path, "host": host}
