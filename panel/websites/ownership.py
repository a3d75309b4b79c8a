"""Ownership of names and addresses: a site cannot take a resource that another team's site uses.
A public name belongs to a team on all hosts of this panel. A name whose meaning depends on the host (`localhost`,
`www.*`) belongs to a team on one host. An address and a default server belong to a team on one web server. Disabled
sites count too. Administrators may share resources; each such decision is an `Allowance`. See docs/decisions/0405.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, may
from panel.audit.services import audit_record, snapshot
from panel.hosts.models import Host, WebServer
from panel.rendering.claims import (
    Claim,
    NameIndex,
    address_canonical,
    block_claims,
    is_local,
    is_wide,
    raw_claims,
    spans,
    takes_socket,
    target_claims,
)
from panel.rendering.spec import Listen as ListenSpec
from panel.rendering.targets import LocalServices
from panel.websites.models import Allowance, AllowanceKind, Listen, RawSnippet, ServerBlock, ServerName, Site
from panel.websites.web_server_specs import services_of

Key = tuple[Any, ...]
NARROW = 60  # above this number of names, all rows are read instead of single lookups

# Hook for apps that depend on this one (deployments): it returns the claims that a site already has on a web server.
# They were allowed at deployment, so operators may deploy them again.
deployed: list[Callable[[Site, WebServer], Set[tuple[str, str]]]] = []


def site_claims(site: Site, *, is_fetched: bool = False) -> list[Claim]:
    """Return the claims of a site: the names, addresses and services that its draft uses. The parts are loaded again,
    because a caller may have changed them.

    `is_fetched`: the parts were just loaded by freeze.with_parts and are not loaded again.
    """
    found: list[Claim] = []
    blocks = site.blocks.all() if is_fetched else site.blocks.prefetch_related("listens", "names")
    for index, block in enumerate(blocks):
        found += block_claims(f"blocks/{index}", (row.name for row in block.names.all()), _listens(block))
    upstreams = site.upstreams.all() if is_fetched else site.upstreams.prefetch_related("servers")
    pools = site.php_pools.all() if is_fetched else site.php_pools.order_by("name")
    servers = ([server.address for server in upstream.servers.all()] for upstream in upstreams)
    for engine, text in _raw_texts(site, is_fetched):
        found += raw_claims(text, engine, "blocks/snippets")
    return [*found, *target_claims(servers, (pool.address for pool in pools))]


def _raw_texts(site: Site, is_fetched: bool) -> list[tuple[str, str]]:
    """Return (engine, text) pairs of the site's raw directives for its current kind of web server (engine).

    Raw directives for other kinds are not deployed, so the names and addresses in them are not claims.
    """
    rows = site.snippets.all() if is_fetched else RawSnippet.objects.filter(site=site.pk)
    return [
        (row.engine, row.expanded)
        for row in rows
        if site.web_server is not None and row.engine == site.web_server.engine
    ]


def _listens(block: ServerBlock) -> list[ListenSpec]:
    rows = block.listens.all()
    return [ListenSpec(row.port, row.address, default_server=row.default_server) for row in rows]


def claims_kept(site: Site | None, team: Team, web_server: WebServer | None) -> set[Key]:
    """Return the keys of the claims (names, addresses, services) that `site` already has for `team` on `web_server`.

    A change of the site is allowed to keep these claims.
    """
    if site is None or site.pk is None or site.team_id != team.pk:
        return set()
    claims = site_claims(site)
    return {_key(claim, site.web_server) for claim in claims} & {_key(claim, web_server) for claim in claims}


def _key(claim: Claim, web_server: WebServer | None) -> Key:
    """Return the key of a claim, extended by the place to which the claim is limited.

    This is the web server for an address or default server, the host for a service or a name local to a host, otherwise
    None.
    """
    if claim.kind in ("address", "default"):
        return (*claim.key, web_server.pk if web_server else None)
    is_of_host = claim.kind == "service" or is_local(claim.value)
    return (*claim.key, web_server.host_id if web_server and is_of_host else None)


@dataclass
class Ownership:
    """Lookup of names, addresses and services that belong to other teams, for many sites with a constant number of
    queries.
    """

    sites: Sequence[Site]
    web_server: WebServer | None = None  # web server for all; None: each on its own
    claims: Sequence[Claim] | None = None  # claims of one site, instead of those of its draft
    is_fetched: bool = False  # the sites were just loaded by freeze.with_parts
    _claims: dict[int, Sequence[Claim]] = field(init=False)
    _names: NameIndex[tuple[int, int | None]] = field(init=False)
    _sockets: dict[tuple[int, int], list[tuple[str, int]]] = field(init=False, default_factory=dict)
    _services: dict[tuple[int, int], LocalServices] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._claims = {
            site.pk: site_claims(site, is_fetched=self.is_fetched) if self.claims is None else self.claims
            for site in self.sites
        }
        self._names = NameIndex(self._rows())

    def _rows(self) -> Iterable[tuple[str, tuple[int, int | None]]]:
        """Return (server name, (team id, host id)) pairs of sites whose names possibly overlap a name in the claims."""
        rows = ServerName.objects.all()
        teams = {site.team_id for site in self.sites}
        if len(teams) == 1:
            rows = rows.exclude(block__site__team__in=teams)
        asked = {claim.value for claims in self._claims.values() for claim in claims if claim.kind == "name"}
        if not asked:
            return []
        rows = rows.filter(_near(asked)) if len(asked) <= NARROW else rows
        values = rows.order_by().values_list("name", "block__site__team", "block__site__web_server__host")
        return ((name, (team, host)) for name, team, host in values.iterator(chunk_size=5000))

    def foreign(self, site: Site, *, kept: Set[Key] = frozenset()) -> list[Claim]:
        """Return the claims (names, addresses, services) of `site`, except those in `kept`, that would take requests
        from other teams' sites and have no allowance.
        """
        web_server = self.web_server or site.web_server
        asked = self._claims[site.pk]
        found = [
            claim
            for claim in asked
            if _key(claim, web_server) not in kept and self._is_foreign(claim, site, web_server)
        ]
        return _not_allowed(found, site.team, web_server.host if web_server else None)

    def _is_foreign(self, claim: Claim, site: Site, web_server: WebServer | None) -> bool:
        if claim.kind == "name":
            if self._name_is_foreign(claim.value, site.team_id, web_server.host_id if web_server else None):
                return True
            return web_server is not None and is_wide(claim.value) and _has_default(web_server, site.team_id)
        if web_server is None:
            return False
        if claim.kind == "service":
            return not self._permitted(site.team, web_server.host).permits(claim.value)
        if not takes_socket(claim, web_server.engine, self._others(web_server, claim.port, site.team_id)):
            return False
        return claim.kind == "default" or not _team_has_socket(site, web_server, claim)

    def _name_is_foreign(self, name: str, team: int, host: int | None) -> bool:
        here = is_local(name)
        for other, (owner, place) in self._names.overlapping(name):
            if owner == team:
                continue
            if not here and not is_local(other):
                return True
            if host is not None and place == host:
                return True
        return False

    def _permitted(self, team: Team, host: Host) -> LocalServices:
        if (team.pk, host.pk) not in self._services:
            self._services[team.pk, host.pk] = services_of(team, host)
        return self._services[team.pk, host.pk]

    def _others(self, web_server: WebServer, port: int, team: int) -> list[tuple[str, int]]:
        """Return the sockets (address, port) of other teams' sites on a port of the web server."""
        rows = self._sockets.get((web_server.pk, port))
        if rows is None:
            listens = Listen.objects.filter(port=port, block__site__web_server=web_server).order_by()
            rows = list(listens.values_list("address", "block__site__team").distinct())
            self._sockets[web_server.pk, port] = rows
        return [(address, port) for address, owner in rows if owner != team]


def _near(names: Iterable[str]) -> Q:
    """Return a filter that matches every row whose name overlaps one of `names`, and possibly more rows."""
    found = Q(name__startswith="~") | Q(name__endswith=".*")
    exact: set[str] = set()
    for span in (span for name in names for span in spans(name)):
        if span.form == "everything":
            return Q()
        if span.form == "prefix":
            found |= Q(name__startswith=span.text) | Q(name__startswith="*.") | Q(name__startswith=".")
            continue
        if span.form == "suffix":
            found |= Q(name__endswith=span.text)
        ends = [span.text[n:] for n in range(len(span.text)) if span.text[n] == "."]
        exact |= {span.text, span.text.removeprefix("."), f".{span.text}", *ends, *(f"*{end}" for end in ends)}
    return found | Q(name__in=exact)


def _has_default(web_server: WebServer, team: int) -> bool:
    """Return whether any default server of the web server belongs to a team other than `team`."""
    rows = Listen.objects.filter(default_server=True, block__site__web_server=web_server)
    return rows.exclude(block__site__team=team).exists()


def _team_has_socket(site: Site, web_server: WebServer, claim: Claim) -> bool:
    """Return whether another site of the team already listens on the claim's address and port of the web server."""
    rows = Listen.objects.filter(port=claim.port, block__site__web_server=web_server, block__site__team=site.team_id)
    addresses = rows.exclude(block__site=site).order_by().values_list("address", flat=True).distinct()
    return any(address_canonical(address) == claim.address for address in addresses)


def _not_allowed(claims: list[Claim], team: Team, host: Host | None) -> list[Claim]:
    if all(claim.kind == "service" for claim in claims):  # already checked against the list of services
        return claims
    rows = Allowance.objects.filter(team=team, value__in={claim.value for claim in claims})
    rows = rows.filter(Q(host=None) | Q(host=host)).exclude(kind=AllowanceKind.SERVICE)
    allowed = set(rows.values_list("kind", "value"))
    return [claim for claim in claims if claim.key not in allowed]


def foreign_claims(
    site: Site, web_server: WebServer | None, *, kept: Set[Key] = frozenset(), claims: Sequence[Claim] | None = None
) -> list[Claim]:
    """Return the claims (names, addresses, services) of one site, except those in `kept`, that would take requests from
    other teams' sites and have no allowance.
    """
    return Ownership([site], web_server, claims).foreign(site, kept=kept)


def not_deployed(claims: list[Claim], site: Site, web_server: WebServer) -> list[Claim]:
    """Return the claims (names, addresses, services) that the deployed version of `site` does not have on
    `web_server`.
    """
    there = {key for keys in deployed for key in keys(site, web_server)} if claims else set()
    return [claim for claim in claims if claim.key not in there]


def refusal(claim: Claim) -> str:
    """Return the error message for a name, address or service of another owner. The message names only the requested
    resource, because its owner may be confidential.
    """
    if claim.kind == "service":
        words = _(
            "%s is a service on the host itself that this team cannot use. Use a listed service, or ask an "
            "administrator to add this service (Hosts, the host's page, Local services)."
        )
        return words % claim.value
    advice = _("or ask an administrator to allow it (Sites, Shared names).")
    if claim.kind == "name":
        words = _("“%s” overlaps a server name of another team and could receive its requests. Choose another name,")
        return f"{words % claim.value} {advice}"
    if claim.kind == "address":
        words = _(
            "%s would receive requests for sites of other teams, which listen on every address of this port. Leave the "
            "address empty, choose another port,"
        )
        return f"{words % claim.value} {advice}"
    words = _(
        "The default server of %s receives all requests without a known server name, and sites of other teams use "
        "this port. Enter server names, choose another port,"
    )
    return f"{words % claim.value} {advice}"


def claims_refused(actor: User, site: Site, *, kept: Set[Key] = frozenset()) -> list[Claim]:
    """Return the claims (names, addresses, services) that `actor` may not give to `site` by a change of its names,
    listens, team or web server.

    For an administrator, all claims except those in raw directives are allowed and recorded as allowances.
    """
    found = foreign_claims(site, site.web_server, kept=kept)
    if not may(actor, Action.ADMINISTER):
        return found
    # claims in raw directives are checked for administrators, too
    raw = [claim for claim in found if claim.where.endswith("/snippets")]
    for claim in found:
        if claim not in raw:
            _allow(actor, site, claim)
    return raw


def _allow(actor: User, site: Site, claim: Claim) -> None:
    """Record an allowance for a claim (name, address or service) that an administrator saved. With the allowance,
    operators of the site's team can keep the change.
    """
    is_of_host = claim.kind != "name" or is_local(claim.value)
    host = site.web_server.host if site.web_server and is_of_host else None
    note = _("Saved by an administrator in the site %s.") % site.name
    row, is_new = Allowance.objects.get_or_create(
        team=site.team, host=host, kind=claim.kind, value=claim.value, defaults={"note": note, "granted_by": actor}
    )
    if is_new:
        audit_record(actor=actor, action="allowance.create", target=row, after=snapshot(row))
