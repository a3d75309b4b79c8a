"""Requests to sites before and after a deployment (probes), to find out whether the sites respond worse. No I/O.

Each site gets requests for its health page on every listen of every server block, for one path of each location, and
for the most requested paths in its access log (from the plan). Requests are also sent before the change if the live
revision handles them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network

from agents.protocol import Probe
from panel.deployments.execution.intents import NO_CERTIFICATE, intended, requires_certificate
from panel.rendering import maintenance
from panel.rendering.errors import NotExpressible
from panel.rendering.locations import locations_of
from panel.rendering.samples import reaching
from panel.rendering.spec import Listen, ServerBlock, SiteSpec, StreamServer

MAX_GUARDS = 24  # other sites asked before and after; each costs a request on the host
MAX_EXTRAS = 400  # addresses of one deployment that are no health pages
ADDRESS_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Health:
    """Expected response of a health page: any status below 400 if `status` is None."""

    path: str = "/"
    status: int | None = None
    text: str = ""
    header: str = ""  # sent with the request: "Name: value"

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        name, _, value = self.header.partition(":")
        return ((name.strip(), value.strip()),) if name.strip() else ()


@dataclass(frozen=True)
class Asked:
    """One site of a deployment, with all data that its probes (test requests) depend on.

    `old` is the live revision, None if nothing is live; `is_moved`: `old` is on another host. `busiest` is {host name:
    most requested paths}. `certificates` is {certificate name: SHA-256}.
    """

    new: SiteSpec
    health: Health = field(default_factory=Health)
    old: SiteSpec | None = None
    is_moved: bool = False
    takes_over: bool = False  # the host's own files served it until now
    busiest: Mapping[str, list[str]] = field(default_factory=dict)
    certificates: Mapping[str, str] = field(default_factory=dict)


def host_for(block: ServerBlock) -> str | None:
    """Return a host name that a server block handles: "localhost" for a block without names, None for a block whose
    names are all regular expressions.
    """
    for name in block.names:
        if name.startswith("~"):
            continue
        return _plain(name)
    return None if block.names else "localhost"


def _plain(name: str) -> str:
    """Return a host name that matches `name`, a server name that may contain a wildcard."""
    if name.startswith("*."):
        return "probe" + name[1:]
    if name.startswith("."):
        return name[1:]
    return name[:-1] + "invalid" if name.endswith(".*") else name


def connect_to(listen: Listen) -> str:
    if listen.address in ("", "0.0.0.0"):  # noqa: S104 - compared with, not bound to
        return "127.0.0.1"
    return "::1" if listen.address == "::" else listen.address


def probes_of(asked: Asked) -> list[Probe]:
    """Return all probes (test requests) of a site: for its health page on every listen, then for paths of its locations
    and for the most requested paths in its access log.
    """
    health = [probe for _listen, probe in health_probes(asked)]
    return list(dict.fromkeys([*health, *extras_of(asked)]))


def health_probes(asked: Asked) -> Iterator[tuple[Listen, Probe]]:
    """Yield (listen, probe) pairs: the health page on every listen of every server block, then every stream server."""
    for number, listen, host in _listens(asked.new):
        yield listen, _health(asked, number, listen, host)
    yield from _stream_probes(asked)


def _stream_probes(asked: Asked) -> Iterator[tuple[Listen, Probe]]:
    """Yield an (address and port, probe) pair for every stream server of a site. A stream server is new if the live
    revision has none with the same protocol, address and port, or has the port without TLS.
    """
    before = set(map(_stream_port, asked.old.stream_servers)) if asked.old else set()
    for row in asked.new.stream_servers:
        listen = Listen(row.port, row.address)
        address = connect_to(listen)
        is_new = _stream_port(row) not in before
        kind = _stream_kind(row, address)
        has_tls = row.tls is not None and kind == "tcp"
        yield (
            listen,
            Probe(
                address,
                row.port,
                address,
                tls=has_tls,
                certificate=asked.certificates.get(row.tls.name, "") if row.tls and has_tls else "",
                site=asked.new.name,
                stream=kind,
                fresh=is_new,
                required=asked.is_moved,
            ),
        )


def _stream_port(row: StreamServer) -> tuple[str, str, int, bool]:
    return row.protocol, row.address, row.port, row.tls is not None


def _stream_kind(row: StreamServer, address: str) -> str:
    """Return the kind of check (Probe.stream) of a stream server's port at `address`. With routes, the web server waits
    for the client's TLS handshake before it connects to an upstream, so only the connection is judged.
    """
    if row.protocol == "udp":
        return "udp"
    is_allowed = not row.allowed or any(_contains(source, address) for source in row.allowed)
    return "tcp" if is_allowed and not row.routes else "tcp_denied"


def _contains(source: str, address: str) -> bool:
    """Return whether a connection from the host to its own `address` comes from the network `source`."""
    return ip_address(address) in ip_network(source, strict=False)


def _listens(spec: SiteSpec) -> Iterator[tuple[int, Listen, str]]:
    for number, block in enumerate(spec.blocks):
        host = host_for(block)
        for listen in block.listens:
            if host is not None or listen.default_server:
                yield number, listen, host or "localhost"


def _health(asked: Asked, number: int, listen: Listen, host: str) -> Probe:
    health = asked.health
    made = _probe(asked, number, listen, host, health.path)
    redirects = asked.new.blocks[number].redirect_to_https and not listen.tls
    if redirects:  # the expected health page is behind the redirect
        return made
    if listen.tls and requires_certificate(asked.new.blocks[number]):
        # Probes send no certificate. Another status rolls the deployment back, even if none was observed before.
        return replace(made, status=NO_CERTIFICATE, fresh=True, required=True)
    if asked.new.maintenance is not None:
        shows_page = not maintenance.excepts(asked.new, made.address)
        return replace(made, status=maintenance.STATUS) if shows_page else made
    return replace(made, status=health.status, text=health.text, headers=health.headers)


def _probe(asked: Asked, number: int, listen: Listen, host: str, path: str) -> Probe:
    block = asked.new.blocks[number]
    address = connect_to(listen)
    was = (address, listen.port) if asked.takes_over else _was(asked.old, listen, host)
    return Probe(
        address,
        listen.port,
        host,
        path=path,
        tls=listen.tls,
        site=asked.new.name,
        names=tuple(dict.fromkeys(_plain(name) for one in asked.new.blocks for name in one.names if name[:1] != "~")),
        intended=intended(asked.new, number, listen, host, path),
        certificate=asked.certificates.get(block.tls.name, "") if block.tls and listen.tls else "",
        http2=listen.tls and listen.http2,
        was=() if was in (None, (address, listen.port)) else was or (),
        fresh=was is None,
        required=asked.is_moved,
    )


def _was(old: SiteSpec | None, listen: Listen, host: str) -> tuple[str, int] | None:
    """Return the address and port at which the revision `old` serves a host name; prefer those of `listen`.
    Listens of `old` count only if they use TLS like `listen`. None if `old` does not serve the host name.
    """
    if old is None:
        return None
    places = [
        (connect_to(item), item.port)
        for block in old.blocks
        if host in {*map(_plain, block.names), host_for(block)}
        for item in block.listens
        if item.tls == listen.tls
    ]
    own = (connect_to(listen), listen.port)
    return own if own in places else next(iter(places), None)


def extras_of(asked: Asked) -> list[Probe]:
    """Return probes (test requests) for one path of each location and for the most requested paths in the access log,
    on one listen of each server block.
    """
    found = []
    for number, block in enumerate(asked.new.blocks):
        host = host_for(block)
        if host is None or not block.listens:
            continue
        listen = next((item for item in block.listens if item.tls), block.listens[0])
        old = _known(asked.old, host)
        for path, key in _paths(block, number):
            made = replace(_probe(asked, number, listen, host, path), kind="location", timeout_s=ADDRESS_TIMEOUT_S)
            found.append(replace(made, new=old is not None and key not in old))
        for path in asked.busiest.get(host, ()):
            made = _probe(asked, number, listen, host, path)
            found.append(replace(made, kind="address", timeout_s=ADDRESS_TIMEOUT_S))
    return [probe for probe in found if not (probe.fresh and probe.kind == "address")]


def _paths(block: ServerBlock, number: int) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield (path, (match type, pattern)) for each location of a server block; requests for the path reach it."""
    try:
        found = locations_of(block, f"/blocks/{number}")
    except NotExpressible:
        return
    for place in found.places:
        if path := reaching(place, found):
            yield path, (place.location.match, place.pattern)


def _known(old: SiteSpec | None, host: str) -> set[tuple[str, str]] | None:
    """Return {(match type, pattern)} of the locations in the server blocks of revision `old` that handle `host`.
    None if `old` is None.
    """
    if old is None:
        return None
    blocks = [block for block in old.blocks if host in {*map(_plain, block.names), host_for(block)}]
    return {(item.match, item.pattern) for block in blocks for item in block.locations}


def logs_of(spec: SiteSpec) -> list[tuple[str, str]]:
    """Return [(host name, log path)] for the site's own access logs: a host name that the log's server block handles,
    and the path of the log.
    """
    pairs = [(host_for(block), block.access_log) for block in spec.blocks]
    return [(host, path) for host, path in pairs if host and path.startswith("/")]


def guards_of(sites: Iterable[tuple[SiteSpec, Health]]) -> list[Probe]:
    """Return one health page probe (a test request) for each site that a deployment must not affect; at most MAX_GUARDS
    probes.
    """
    guards: list[Probe] = []
    for spec, health in sites:
        if len(guards) == MAX_GUARDS:
            break
        for _number, listen, host in _listens(spec):
            place = Probe(connect_to(listen), listen.port, host, path=health.path, tls=listen.tls, site=spec.name)
            guards.append(replace(place, kind="other", headers=health.headers))
            break
        else:
            guards += [replace(probe, kind="other") for _, probe in _stream_probes(Asked(spec, old=spec))][:1]
    return guards


def limited(probes: Iterable[Probe]) -> list[Probe]:
    """Return all probes of health pages, then at most MAX_EXTRAS others, taken from the sites in turn."""
    health: list[Probe] = []
    extras: dict[str, list[Probe]] = {}
    for probe in dict.fromkeys(probes):
        if probe.kind == "health":
            health.append(probe)
        else:
            extras.setdefault(probe.site, []).append(probe)
    turns = max(map(len, extras.values()), default=0)
    in_turn = [rows[turn] for turn in range(turns) for rows in extras.values() if turn < len(rows)]
    return health + in_turn[:MAX_EXTRAS]
