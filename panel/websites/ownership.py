"""Which names and addresses belong to which team: what a team's site uses, no other team's site may take away.

A public name belongs to a team on every host of this panel; a name that means something else on each host (`localhost`,
`www.*`) on one host only. An address and a default server belong to a team on one web server. Sites count whether or
not they are enabled. Administrators may share them; each such decision is an `Allowance`. See docs/decisions/0405.
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
from panel.hosts.models import EngineInstall, Host
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
from panel.rendering.spec import SiteSpec
from panel.rendering.targets import LocalServices
from panel.websites.models import Allowance, AllowanceKind, Listen, RawSnippet, ServerBlock, ServerName, Site

Key = tuple[Any, ...]
NARROW = 60  # names for which rows are looked up one by one; for more of them all rows are read

# Apps that build on this one (deployments) say here what a site answers to on a web server already: that was allowed
# when it was deployed, and its operators may go on deploying it.
standing: list[Callable[[Site, EngineInstall], Set[tuple[str, str]]]] = []


def site_claims(site: Site, *, is_fetched: bool = False) -> list[Claim]:
    """What `site` uses by its draft, read anew: a caller may have changed it since it fetched the site's parts.
    `is_fetched`: the parts came from freeze.with_parts just now."""
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
    """Raw directives for the engine of the site's web server, which alone are rendered."""
    rows = site.snippets.all() if is_fetched else RawSnippet.objects.filter(site=site.pk)
    return [(row.engine, row.text) for row in rows if site.install is not None and row.engine == site.install.engine]


def _listens(block: ServerBlock) -> list[ListenSpec]:
    rows = block.listens.all()
    return [ListenSpec(row.port, row.address, default_server=row.default_server) for row in rows]


def spec_claims(spec: SiteSpec, engine: str) -> list[Claim]:
    """The same of a frozen site that a web server of that engine serves."""
    found: list[Claim] = []
    for index, block in enumerate(spec.blocks):
        found += block_claims(f"blocks/{index}", block.names, block.listens)
        for text in (block.snippet, *(location.snippet for location in block.locations)):
            found += raw_claims(text, engine, "blocks/snippets")
    servers = ([server.address for server in upstream.servers] for upstream in spec.upstreams)
    return [*found, *target_claims(servers, (pool.address for pool in spec.php_pools))]


def claims_kept(site: Site | None, team: Team, install: EngineInstall | None) -> set[Key]:
    """What `site` answers to already for `team` on `install`: saving it again takes nothing from anybody."""
    if site is None or site.pk is None or site.team_id != team.pk:
        return set()
    claims = site_claims(site)
    return {_key(claim, site.install) for claim in claims} & {_key(claim, install) for claim in claims}


def _key(claim: Claim, install: EngineInstall | None) -> Key:
    """With the place where the claim holds."""
    if claim.kind in ("address", "default"):
        return (*claim.key, install.pk if install else None)
    is_of_host = claim.kind == "service" or is_local(claim.value)
    return (*claim.key, install.host_id if install and is_of_host else None)


def services_of(team: Team, host: Host) -> LocalServices:
    """What sites of `team` may use of the services on `host` itself; what else is on that host is not theirs."""
    rows = Allowance.objects.filter(Q(team=team) | Q(team=None), kind=AllowanceKind.SERVICE, host=host)
    return LocalServices(own_names(host), tuple(rows.order_by().values_list("value", flat=True)))


def own_names(host: Host) -> tuple[str, ...]:
    """The host's own names and addresses, as far as the panel knows them now."""
    address, facts = Host.objects.values_list("address", "facts").get(pk=host.pk)
    return tuple(filter(None, (address, facts.get("hostname", ""), *facts.get("addresses", ()))))


@dataclass
class Ownership:
    """Looks up what other teams have, for many sites with the same few queries as for one."""

    sites: Sequence[Site]
    install: EngineInstall | None = None  # that all are judged on; None: each on its own
    claims: Sequence[Claim] | None = None  # of one site, instead of those of its draft
    is_fetched: bool = False  # the sites came from freeze.with_parts just now
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
        """Names of other sites that may overlap those asked about, with team and host."""
        rows = ServerName.objects.all()
        teams = {site.team_id for site in self.sites}
        if len(teams) == 1:
            rows = rows.exclude(block__site__team__in=teams)
        asked = {claim.value for claims in self._claims.values() for claim in claims if claim.kind == "name"}
        if not asked:
            return []
        rows = rows.filter(_near(asked)) if len(asked) <= NARROW else rows
        values = rows.order_by().values_list("name", "block__site__team", "block__site__install__host")
        return ((name, (team, host)) for name, team, host in values.iterator(chunk_size=5000))

    def foreign(self, site: Site, *, kept: Set[Key] = frozenset()) -> list[Claim]:
        """What of `site` would take requests from sites of other teams, and nobody allowed."""
        install = self.install or site.install
        asked = self._claims[site.pk]
        found = [
            claim for claim in asked if _key(claim, install) not in kept and self._is_foreign(claim, site, install)
        ]
        return _not_allowed(found, site.team, install.host if install else None)

    def _is_foreign(self, claim: Claim, site: Site, install: EngineInstall | None) -> bool:
        if claim.kind == "name":
            if self._name_is_foreign(claim.value, site.team_id, install.host_id if install else None):
                return True
            return install is not None and is_wide(claim.value) and _has_default(install, site.team_id)
        if install is None:
            return False
        if claim.kind == "service":
            return not self._permitted(site.team, install.host).permits(claim.value)
        if not takes_socket(claim, install.engine, self._others(install, claim.port, site.team_id)):
            return False
        return claim.kind == "default" or not _team_has_socket(site, install, claim)

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

    def _others(self, install: EngineInstall, port: int, team: int) -> list[tuple[str, int]]:
        """The sockets of other teams' sites on that port of the web server."""
        rows = self._sockets.get((install.pk, port))
        if rows is None:
            listens = Listen.objects.filter(port=port, block__site__install=install).order_by()
            rows = list(listens.values_list("address", "block__site__team").distinct())
            self._sockets[install.pk, port] = rows
        return [(address, port) for address, owner in rows if owner != team]


def _near(names: Iterable[str]) -> Q:
    """At least the rows whose names overlap one of `names`."""
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


def _has_default(install: EngineInstall, team: int) -> bool:
    """Whether a default server of that web server is another team's."""
    rows = Listen.objects.filter(default_server=True, block__site__install=install)
    return rows.exclude(block__site__team=team).exists()


def _team_has_socket(site: Site, install: EngineInstall, claim: Claim) -> bool:
    """Whether another site of the team has that address of the web server already."""
    rows = Listen.objects.filter(port=claim.port, block__site__install=install, block__site__team=site.team_id)
    addresses = rows.exclude(block__site=site).order_by().values_list("address", flat=True).distinct()
    return any(address_canonical(address) == claim.address for address in addresses)


def _not_allowed(claims: list[Claim], team: Team, host: Host | None) -> list[Claim]:
    if all(claim.kind == "service" for claim in claims):  # whose list was asked already
        return claims
    rows = Allowance.objects.filter(team=team, value__in={claim.value for claim in claims})
    rows = rows.filter(Q(host=None) | Q(host=host)).exclude(kind=AllowanceKind.SERVICE)
    allowed = set(rows.values_list("kind", "value"))
    return [claim for claim in claims if claim.key not in allowed]


def foreign_claims(
    site: Site, install: EngineInstall | None, *, kept: Set[Key] = frozenset(), claims: Sequence[Claim] | None = None
) -> list[Claim]:
    """What of one site would take requests from sites of other teams, and no administrator allowed."""
    return Ownership([site], install, claims).foreign(site, kept=kept)


def not_standing(claims: list[Claim], site: Site, install: EngineInstall) -> list[Claim]:
    """Those that `site` does not answer to on `install` now."""
    there = {key for keys in standing for key in keys(site, install)} if claims else set()
    return [claim for claim in claims if claim.key not in there]


def refusal(claim: Claim) -> str:
    """Names only what was asked for: which site or team has it is not for everyone to know."""
    if claim.kind == "service":
        words = _(
            "%s is a service on the host itself that this team cannot use. Use a listed service, or ask an "
            "administrator to add it (Hosts, the host's page, Local services)."
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
    """What `actor` may not give `site`, after a change of its names, listens, team or web server. An administrator's
    change is allowed, and recorded as such."""
    found = foreign_claims(site, site.install, kept=kept)
    if not may(actor, Action.ADMINISTER):
        return found
    raw = [claim for claim in found if claim.where.endswith("/snippets")]  # held to the list, whoever writes them
    for claim in found:
        if claim not in raw:
            _allow(actor, site, claim)
    return raw


def _allow(actor: User, site: Site, claim: Claim) -> None:
    """Operators of the site's team may go on with what an administrator gave them."""
    is_of_host = claim.kind != "name" or is_local(claim.value)
    host = site.install.host if site.install and is_of_host else None
    note = _("Saved by an administrator in the site %s.") % site.name
    row, is_new = Allowance.objects.get_or_create(
        team=site.team, host=host, kind=claim.kind, value=claim.value, defaults={"note": note, "granted_by": actor}
    )
    if is_new:
        audit_record(actor=actor, action="allowance.create", target=row, after=snapshot(row))
