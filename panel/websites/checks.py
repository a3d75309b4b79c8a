"""Checks before a site can be deployed, across several objects: within the site, with its host, with other sites.
A draft with problems can be saved, and the site's page shows the problems; a plan is possible only without problems.
Conflicts with other sites are rejected when a draft is saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import PurePosixPath

from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext as _

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, may
from panel.core.tags import tags_to_text
from panel.hosts.models import Host, WebServer
from panel.rendering.claims import Claim
from panel.rendering.openlitespeed.listeners import own_clash
from panel.rendering.spec import OwnListener
from panel.websites import freeze, ownership, paths
from panel.websites.models import Listen, ServerBlock, ServerName, Site, Upstream
from panel.websites.port_clashes import site_label, stream_clashes, suspects
from panel.websites.problems import Problem
from panel.websites.tls_checks import host_file_problems, stream_problems, tls_problems

_ANY = {"", "0.0.0.0", "::"}  # noqa: S104 - compared with, not bound to


def site_problems(
    site: Site,
    web_server: WebServer | None = None,
    *,
    actor: User,
    is_fetched: bool = False,
    may_clash: bool = True,
    others: ownership.Ownership | None = None,
) -> list[Problem]:
    """Return the problems that prevent `actor` from planning `site` on `web_server` (default: the site's web server).
    The list is empty if a plan is possible.

    `is_fetched`: the site was just loaded by freeze.with_parts. `may_clash`: whether the site is one of
    `clash_suspects`. `others`: lookup of other teams' names and addresses, which a caller can share among several
    sites.
    """
    site = site if is_fetched else freeze.fetched(site)
    web_server = web_server or site.web_server
    if web_server is None:
        return [Problem("web_server", _("Choose a web server for this site."))]
    blocks = list(site.blocks.all())
    if not blocks and not site.stream_servers.all():
        return [
            Problem("blocks", _("Add a server block with the addresses and names of this site, or a stream server."))
        ]
    problems: list[Problem] = []
    for index, block in enumerate(blocks):
        problems += _block_problems(f"blocks/{index}", block)
        problems += _path_problems(f"blocks/{index}", block, site.web_server, web_server)
        problems += _listener_problems(f"blocks/{index}", block, web_server)
        problems += host_file_problems(f"blocks/{index}", block, web_server)
    problems += [*_upstream_problems(site), *stream_problems(site, web_server)]
    problems += _clashes(actor, site, web_server, blocks) if may_clash else _own_clashes(blocks)
    if may(actor, Action.ADMINISTER):  # administrators may share folders, names and addresses between teams
        return problems
    foreign = (others or ownership.Ownership([site], web_server, is_fetched=True)).foreign(site)
    problems += claim_problems(ownership.not_deployed(foreign, site, web_server))
    kept, named = paths.deployed_paths(site, web_server.host), paths.paths_on(site, web_server)
    return problems + path_clashes(actor, site, web_server.host, kept=kept, named=named)


def _upstream_problems(site: Site) -> Iterable[Problem]:
    for index, upstream in enumerate(site.upstreams.all()):
        servers = list(upstream.servers.all())
        if not any(not server.down and not server.backup for server in servers):
            yield Problem(f"upstreams/{index}/servers", _no_server(upstream))


def _no_server(upstream: Upstream) -> str:
    if not upstream.host_tags or upstream.servers.all():
        return _("%s has no active server. Add a server.") % upstream
    words = _("%(upstream)s has no server: no host of the team has the tags %(tags)s.")
    return words % {"upstream": upstream, "tags": tags_to_text(upstream.host_tags)}


def _block_problems(where: str, block: ServerBlock) -> Iterable[Problem]:
    listens = list(block.listens.all())
    names = [item.name for item in block.names.all()]
    if not listens:
        yield Problem(f"{where}/listens", _("Add at least one address, for example port 80."))
    if not names and not any(item.default_server for item in listens):
        yield Problem(
            f"{where}/names", _("Enter the domains of this server block, or make the block the default server.")
        )
    tls = any(item.tls for item in listens)
    yield from tls_problems(where, block, tls, names)
    if not block.root and not block.locations.all():
        yield Problem(f"{where}/root", _("Enter the document root, or add a location."))


def _listener_problems(where: str, block: ServerBlock, web_server: WebServer) -> Iterable[Problem]:
    """Return problems with addresses that the web server's own configuration already listens on with other settings
    than the site.
    """
    own = [OwnListener(**item) for item in web_server.own_listeners]
    for listen in block.listens.all():
        words = own_clash(own, listen.address, listen.port, listen.tls)
        if words:
            yield Problem(f"{where}/listens", f"{web_server.get_engine_display()}: {words}.")


def _below(path: str, roots: Iterable[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(root) for root in roots)


def _path_problems(
    where: str, block: ServerBlock, former: WebServer | None, web_server: WebServer
) -> Iterable[Problem]:
    roots = [root for root in web_server.host.site_roots if root]
    named = [(f"{where}/root", block.root)]
    for index, location in enumerate(block.locations.all()):
        named += [(f"{where}/locations/{index}/{name}", getattr(location, name)) for name in ("root", "alias")]
    for place, path in named:
        if path and not _below(path, roots):
            allowed = ", ".join(roots) or _("no folders yet; an administrator can add site folders to the host")
            yield Problem(
                place,
                _("%(path)s is outside the site folders of %(host)s: %(roots)s.")
                % {"path": path, "host": web_server.host, "roots": allowed},
            )
    yield from _log_problems(where, block, former, web_server, [path for _place, path in named if path])


def _log_problems(
    where: str, block: ServerBlock, former: WebServer | None, web_server: WebServer, served: list[str]
) -> Iterable[Problem]:
    """Return problems with logs inside folders that the site serves, and with logs outside the web server's log folder.
    Logs must stay in the log folder, because the web server's root process writes them.
    """
    log_dir = web_server.paths.get("log_dir", "")
    for name in ("access_log", "error_log"):
        path = paths.log_on(getattr(block, name), former, web_server)
        if path in ("", "off"):
            continue
        if not log_dir or not _below(path, [log_dir]):
            yield Problem(
                f"{where}/{name}",
                _("Logs of %(server)s must be in %(folder)s.") % {"server": web_server, "folder": log_dir},
            )
        elif _below(path, served):
            yield Problem(
                f"{where}/{name}", _("This log is inside a folder that the site serves. Choose another path.")
            )


# --- other sites ---


def site_clashes(actor: User, site: Site, web_server: WebServer) -> list[Problem]:
    """Return problems with names and addresses that another enabled site of the web server, or another web server of
    the host, already uses.

    A few queries per listen, independent of the number of sites. Messages name only sites that `actor` can see.
    """
    return _clashes(actor, site, web_server, list(site.blocks.prefetch_related("listens", "names")))


def _clashes(actor: User, site: Site, web_server: WebServer, own: list[ServerBlock]) -> list[Problem]:
    problems = _own_clashes(own)
    for index, block in enumerate(own):
        names = [item.name for item in block.names.all()]
        for listen in block.listens.all():
            others = _others(site, web_server, listen)
            problems += _port_clash(
                actor, f"blocks/{index}", listen, others.exclude(block__site__web_server=web_server)
            )
            same = others.filter(block__site__web_server=web_server, address=listen.address)
            problems += _listen_clashes(actor, f"blocks/{index}", listen, same)
            problems += _name_clashes(actor, f"blocks/{index}", listen, names, same)
    problems += stream_clashes(actor, site, web_server, own)
    return list(dict.fromkeys(problems))


def clash_suspects(sites: Iterable[Site]) -> set[int]:
    """Return the ids of sites that may conflict with another site, each checked on its own web server. All other sites
    certainly do not conflict. One query.
    """
    keys = [site.pk for site in sites]
    own = Listen.objects.filter(block__site__in=keys)
    own_names = ServerName.objects.filter(block=OuterRef(OuterRef(OuterRef("block")))).values("name")
    shared_name = ServerName.objects.filter(block=OuterRef("block"), name__in=own_names)
    both_default = Q(default_server=True) & Q(default_server=OuterRef("default_server"))
    same_socket = Q(address=OuterRef("address")) & (~Q(tls=OuterRef("tls")) | both_default | Exists(shared_name))
    others = Listen.objects.filter(
        ~Q(block__site__web_server=OuterRef("block__site__web_server")) | same_socket,
        port=OuterRef("port"),
        block__site__enabled=True,
        block__site__web_server__host=OuterRef("block__site__web_server__host"),
    ).exclude(block__site=OuterRef("block__site"))
    found = own.filter(Exists(others)).order_by().values_list("block__site", flat=True)
    return set(found.union(*suspects(keys)))


def _others(site: Site, web_server: WebServer, listen: Listen) -> QuerySet[Listen]:
    """Return the listens on the port of `listen` that other enabled sites of the web server's host have."""
    rows = Listen.objects.filter(
        port=listen.port, block__site__enabled=True, block__site__web_server__host=web_server.host
    )
    return rows.exclude(block__site=site).select_related("block__site__web_server__host").order_by("block__site__name")


def _overlapping(address: str) -> Q:
    """Return the condition that an address equals `address`, or that either means all addresses of the IP version."""
    is_v6 = ":" in address
    family = Q(address__contains=":") if is_v6 else ~Q(address__contains=":")
    return family if address in _ANY else family & Q(address__in=[address, *_ANY])


def _port_clash(actor: User, where: str, listen: Listen, others: QuerySet[Listen]) -> Iterable[Problem]:
    other = others.filter(_overlapping(listen.address)).first()
    if other is not None:
        theirs = other.block.site
        yield Problem(
            f"{where}/listens",
            _("%(listen)s is already used by %(server)s for %(site)s. Use another port, or move one of the sites.")
            % {"listen": listen, "server": theirs.web_server, "site": site_label(actor, theirs)},
        )


def _listen_clashes(actor: User, where: str, listen: Listen, same: QuerySet[Listen]) -> Iterable[Problem]:
    other = same.exclude(tls=listen.tls).first()
    if other is not None:
        yield Problem(
            f"{where}/listens",
            _(
                "%(listen)s is used %(how)s by %(site)s. All sites on a port must use TLS, or none of them. "
                "Choose another port."
            )
            % {
                "site": site_label(actor, other.block.site),
                "how": _("with TLS") if other.tls else _("without TLS"),
                "listen": listen,
            },
        )
    other = same.filter(default_server=True).first() if listen.default_server else None
    if other is not None:
        yield Problem(
            f"{where}/listens",
            _(
                "%(listen)s: %(site)s is already the default server of this address and port. Remove the option "
                "default from this address."
            )
            % {"site": site_label(actor, other.block.site), "listen": listen},
        )


def _name_clashes(
    actor: User, where: str, listen: Listen, names: list[str], same: QuerySet[Listen]
) -> Iterable[Problem]:
    taken: dict[str, list[str]] = {}
    rows = ServerName.objects.filter(name__in=names, block__in=same.order_by().values("block"))
    for row in rows.order_by("name").select_related("block__site"):
        taken.setdefault(site_label(actor, row.block.site), []).append(row.name)
    for theirs, shared in sorted(taken.items()):
        yield Problem(
            f"{where}/names",
            _("%(names)s on %(listen)s: already used by %(site)s. Remove the names from that site first.")
            % {"names": ", ".join(shared), "listen": listen, "site": theirs},
        )


def _own_clashes(blocks: list[ServerBlock]) -> list[Problem]:
    """Return problems with addresses and names that several server blocks of one site share."""
    problems = []
    seen: dict[tuple[str, int, str], int] = {}
    defaults: dict[tuple[str, int], int] = {}
    for index, block in enumerate(blocks):
        for listen in block.listens.all():
            key = (listen.address, listen.port)
            if listen.default_server and defaults.setdefault(key, index) != index:
                words = _("%s has two default servers. Remove the option default from one of them.") % listen
                problems.append(Problem(f"blocks/{index}/listens", words))
            for item in block.names.all():
                if seen.setdefault((*key, item.name), index) != index:
                    problems.append(
                        Problem(
                            f"blocks/{index}/names",
                            _("%(name)s is in two server blocks on %(listen)s. Remove the name from one of them.")
                            % {"name": item.name, "listen": listen},
                        )
                    )
    return problems


def path_clashes(
    actor: User, site: Site, host: Host, *, kept: Set[str] = frozenset(), named: Mapping[str, str] | None = None
) -> list[Problem]:
    """Return problems with paths of `site` on `host` that belong to another team's files. `named` (paths by their place
    in the site's definition) replaces the paths of the draft. Paths in `kept` are allowed.

    The list is empty for administrators, who may share folders between teams. A constant number of queries.
    """
    if may(actor, Action.ADMINISTER):
        return []
    found = paths.site_paths(site) if named is None else named
    asked = {where: path for where, path in found.items() if path not in kept}
    foreign = paths.foreign_paths(asked.values(), site.team, host)
    return [
        Problem(where.partition("#")[0], paths.refusal(path, host)) for where, path in asked.items() if path in foreign
    ]


def claim_problems(claims: Iterable[Claim]) -> list[Problem]:
    """Return the problems for the given claims (names, addresses, services), without duplicates."""
    return list(dict.fromkeys(Problem(claim.where, ownership.refusal(claim)) for claim in claims))


@dataclass(frozen=True)
class Kept:
    """Paths and claims (names, addresses, services) that a site had before a change. The checks of a change accept
    these paths and claims.
    """

    paths: Set[str] = frozenset()
    claims: Set[ownership.Key] = frozenset()


def kept_of(site: Site | None, team: Team, web_server: WebServer | None) -> Kept:
    """Return the paths and claims (names, addresses, services) that `site` already uses for `team` on `web_server`."""
    host = web_server.host if web_server else None
    return Kept(paths.kept_paths(site, team, host), ownership.claims_kept(site, team, web_server))


def foreign_problems(actor: User, site: Site, kept: Kept) -> list[Problem]:
    """Return problems with names, addresses, services and paths of `site` that belong to another team and are not in
    `kept`, the resources that the site had before the change by `actor`.
    """
    problems = claim_problems(ownership.claims_refused(actor, site, kept=kept.claims))
    return problems + (path_clashes(actor, site, site.web_server.host, kept=kept.paths) if site.web_server else [])


def refuse_foreign(actor: User, site: Site, *, kept: Kept | None = None, field: str = "") -> None:
    """Reject names, addresses, services and paths of other teams, except those in `kept`. Call this after every change
    of a site's parts, team or web server, even if the site is disabled.

    Raises ValidationError at `field`, by default at the field of each problem.
    """
    faults: dict[str, list[str]] = {}
    for problem in foreign_problems(actor, site, kept or Kept()):
        faults.setdefault(field or problem.field, []).append(problem.message)
    if faults:
        raise ValidationError(faults)


def refuse_host_of_others(site: Site, web_server: WebServer | None = None, *, field: str = "web_server") -> None:
    """Reject a web server (default: the site's web server) on a host that only other teams may use. Raises
    ValidationError at `field`.
    """
    web_server = web_server or site.web_server
    if web_server is None or web_server.host.permits(site.team):
        return
    words = _("The host %(host)s belongs to other teams than %(team)s. Choose another host, or ask an administrator.")
    raise ValidationError({field: words % {"host": web_server.host.name, "team": site.team.name}})


def refuse_foreign_paths(actor: User, site: Site, *, kept: Set[str] = frozenset(), field: str = "") -> None:
    """Reject paths that belong to other teams. Call this after every change of a site's paths, team or web server, even
    if the site is disabled, because its logs can be read.

    Raises ValidationError at `field`, by default at the field of each path.
    """
    if site.web_server is None:
        return
    faults: dict[str, list[str]] = {}
    for problem in path_clashes(actor, site, site.web_server.host, kept=kept):
        faults.setdefault(field or problem.field, []).append(problem.message)
    if faults:
        raise ValidationError(faults)


def refuse_clashes(actor: User, site: Site) -> None:
    """Reject conflicts with other sites. Call this after every change of an enabled site's addresses, names or web
    server. Raises ValidationError keyed by field.
    """
    if not site.enabled or site.web_server is None:
        return
    problems = site_clashes(actor, site, site.web_server)
    if problems:
        raise ValidationError({problem.field: problem.message for problem in problems})
