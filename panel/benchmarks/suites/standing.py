"""From a case and its set-ups to what the agent sets up: files, servers, ports, and where each is asked. Pure."""

from __future__ import annotations

import datetime
import hashlib
import json
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agents.protocol import StandRequest, StandServer, plain
from panel.benchmarks.commands import Endpoint
from panel.benchmarks.suites import mains
from panel.benchmarks.suites.definitions import Case, Content, Network, Settings, Setup
from panel.rendering import render, render_install
from panel.rendering.nginx.scope import Dialect
from panel.rendering.spec import InstallSpec, Listen, Location, PhpPool, ServerBlock, SiteSpec, TlsFiles
from panel.websites.certificates import self_signed

NAME = "stand.test"
FAR = "10.77.0.2"  # agents/host/link.py
PORTS = range(20_000, 32_000)  # below where Linux takes ports for connections from
WWW = f"{mains.ROOT}/www"
_TLS = TlsFiles("stand", f"{mains.ROOT}/tls/stand.crt", f"{mains.ROOT}/tls/stand.key")


@dataclass(frozen=True)
class Program:
    """A server program of the host, as the host's install describes it."""

    binary: str
    version: str
    modules: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Place:
    """One set-up in the stand: where it is asked, and which of the stand's servers are its process trees. `digest`
    tells its configuration, whatever port it was given, from another."""

    setup: Setup
    endpoint: Endpoint
    trees: dict[str, str]
    digest: str


@dataclass(frozen=True)
class Plan:
    request: StandRequest
    places: list[Place]


def plan(
    ident: str,
    case: Case,
    setups: list[Setup],
    content: Content,
    settings: Settings,
    programs: dict[str, Program],
    *,
    as_root: bool,
    isolated: bool = False,
    ready_made: str = "",
    uploads: dict[str, dict[str, str]] | None = None,
) -> Plan:
    """`programs` by engine, of the host's installs; `ready_made`: an application that the agent sets up. Ports are new
    in every plan."""
    tls = bool(case.arguments.get("tls"))
    address = FAR if case.network or isolated else "127.0.0.1"
    files = _certificate() if tls else {}
    files |= {f"www/{name}": text for name, text in content.texts}
    servers: list[StandServer] = []
    if ready_made:
        files |= mains.mariadb(as_root=as_root)
        servers.append(StandServer(mains.DATABASE, "mariadb", f"{mains.DATABASE}.sock"))
    places = []
    for setup, port in zip(setups, random.sample(PORTS, len(setups)), strict=True):
        made = partial(_files, setup, settings, programs[setup.engine], address, tls=tls, as_root=as_root)
        files |= made(port)
        place = _place(setup, Endpoint(address, port, NAME if tls else address, tls), _digest(made(PORTS.start)))
        servers += _servers(place, programs[setup.engine].binary)
        places.append(place)
    request = StandRequest(
        id=ident,
        files=[{"path": path, "text": text} for path, text in files.items()],
        fill=[{"path": f"www/{name}", "bytes": size} for name, size in (*content.sizes, *case.sizes)],
        folders=["www", *(f"{setup.slug}/{name}" for setup in setups for name in ("temp", "conf.d"))],
        servers=servers,
        listeners=[place.endpoint.target for place in places],
        network=case.network.request() if case.network else ({} if isolated else None),
        programs=uploads or {},
        application=ready_made,
    )
    return Plan(request, places)


def _files(
    setup: Setup, settings: Settings, program: Program, address: str, port: int, *, tls: bool, as_root: bool
) -> dict[str, str]:
    """All that one set-up is configured with."""
    pool = mains.php_fpm(setup, as_root=as_root) if setup.php_children else {}
    return mains.main(setup, settings, as_root=as_root) | _site(setup, program, address, port, tls=tls) | pool


def _digest(files: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _place(setup: Setup, endpoint: Endpoint, digest: str) -> Place:
    trees = {"server": setup.slug}
    if setup.php_children:
        trees["application"] = mains.pool(setup)
    return Place(setup, endpoint, trees, digest)


def _servers(place: Place, binary: str) -> list[StandServer]:
    """Its own programs, in the order in which they are started."""
    setup = place.setup
    pools = [StandServer(mains.pool(setup), "php-fpm", "php.sock")] if setup.php_children else []
    return [*pools, StandServer(setup.slug, setup.engine, place.endpoint.target, binary)]


def request_json(request: StandRequest) -> dict[str, Any]:
    data: dict[str, Any] = plain(request)
    return data


def _certificate() -> dict[str, str]:
    bundle = self_signed([NAME], now=datetime.datetime.now(datetime.UTC), days=2)
    return {"tls/stand.crt": bundle.certificate_pem, "tls/stand.key": bundle.private_key_pem}


def able(setup: Setup, program: Program) -> Setup:
    """The set-up with the protocols that it can be asked by on this host: nginx speaks HTTP/3 where it was built to."""
    if setup.engine != "nginx" or not program.modules or not Dialect.of(_install(setup, program)).http3:
        return setup
    return replace(setup, protocols=(*setup.protocols, "h3"))


def _install(setup: Setup, program: Program) -> InstallSpec:
    return InstallSpec(
        engine=setup.engine,
        layout="conf_d",
        config_root=mains.config_root(setup),
        log_dir=mains.home(setup.slug),
        version=program.version,
        modules=program.modules,
        site_roots=(mains.ROOT,),
        own_ports=frozenset(),
    )


def _site(setup: Setup, program: Program, address: str, port: int, *, tls: bool) -> dict[str, str]:
    """The one site, as the product renders it for this server."""
    install = _install(setup, program)
    spec = site(setup, address, port, tls=tls)
    files = [*render(spec, install), *render_install([spec], install)]
    return {file.path.removeprefix(f"{mains.ROOT}/"): file.text for file in files}


def site(setup: Setup, address: str, port: int, *, tls: bool) -> SiteSpec:
    listen = Listen(
        port=port,
        address=address,
        tls=tls,
        http2=tls and "h2" in setup.protocols and setup.mpm != "prefork",
        http3=tls and "h3" in setup.protocols,
        default_server=True,
    )
    pools: tuple[PhpPool, ...] = ()
    locations: tuple[Location, ...] = ()
    if setup.php_children:
        pools = (PhpPool("php", f"unix:{mains.home(mains.pool(setup))}/php.sock"),)
        locations = (Location(match="~", pattern=r"\.php$", handler="php", php_pool="php"),)
    block = ServerBlock(
        listens=(listen,),
        names=(NAME,),
        root=WWW,
        index=("index.php", "index.html") if setup.php_children else ("index.html",),
        access_log="off",
        tls=_TLS if tls else None,
        locations=locations,
    )
    return SiteSpec(name="stand", blocks=(block,), php_pools=pools)


def network_words(network: Network | None) -> str:
    return network.words if network else "this machine's loopback"
