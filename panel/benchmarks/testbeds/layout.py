"""Plan of a test bed, made from a case and its configurations: files, servers, ports, and addresses. This module sends
no requests to hosts.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import random
import secrets
from dataclasses import dataclass, replace
from functools import partial

from agents.protocol import TestbedRequest, TestbedServer, plain
from panel.benchmarks.suites.definitions import Case, Content, Network, Settings, Setup
from panel.benchmarks.testbeds import main_files
from panel.benchmarks.tools.commands import Endpoint
from panel.rendering import render, render_web_server
from panel.rendering.nginx.scope import Dialect
from panel.rendering.spec import Listen, Location, PhpPool, ServerBlock, SiteSpec, TlsFiles, WebServerSpec
from panel.websites.certificates import self_signed

NAME = "testbed.test"
FAR = "10.77.0.2"  # agents/host/link.py
PEER = "10.77.1.2"  # agents/host/peers.py
PORTS = range(20_000, 32_000)  # below Linux's range of ephemeral ports
WWW = f"{main_files.ROOT}/www"
_TLS = TlsFiles("testbed", f"{main_files.ROOT}/tls/testbed.crt", f"{main_files.ROOT}/tls/testbed.key")


@dataclass(frozen=True)
class Program:
    """Program of a web server that is installed on the host; test beds start private instances of it."""

    binary: str
    version: str
    modules: frozenset[str] = frozenset()
    lsphp: str = ""  # the host's program, if it has one


@dataclass(frozen=True)
class Peers:
    """Data shared by the two hosts of a run, one for the web servers and one for the load generator: their addresses,
    and secrets for the tunnel between them.
    """

    servers: str
    load: str
    word: str
    vni: int
    port: int

    def request(self, role: str) -> dict[str, object]:
        """Return the data for the agent of one host (agents/host/peers.py). `role` is "load" or "servers"."""
        other = self.servers if role == "load" else self.load
        return {"role": role, "address": other, "word": self.word, "vni": self.vni, "port": self.port}


def new_peers(servers: str, load: str) -> Peers:
    """Return new Peers for two hosts of a run, with the addresses `servers` and `load`, and a random secret, tunnel
    number and port.
    """
    ports = range(32_000, 32_700)  # below Linux's range of ephemeral ports
    return Peers(servers, load, secrets.token_hex(16), 1 + secrets.randbelow((1 << 24) - 1), secrets.choice(ports))


@dataclass(frozen=True)
class Place:
    """One configuration in the test bed: its address and the process trees to monitor.

    `trees` maps "server" and "application" to a server of the test bed (`nginx`), or to child processes of a server
    (`openlitespeed/lsphp*`). `digest` identifies the configuration's files, independent of ports.
    """

    setup: Setup
    endpoint: Endpoint
    trees: dict[str, str]
    digest: str


@dataclass(frozen=True)
class Plan:
    """Plan of a test bed: the request to the agent of the web servers' host, and one Place for each configuration."""

    request: TestbedRequest
    places: list[Place]
    load: TestbedRequest | None = None  # request for the load generator's host, if different


@dataclass(frozen=True)
class _Ground:
    """Settings common to all configurations of one test bed."""

    settings: Settings
    address: str
    tls: bool
    as_root: bool


@dataclass(frozen=True)
class _Lot:
    """The part of a test bed that belongs to one configuration: its address, files and servers."""

    place: Place
    files: dict[str, str]
    servers: list[TestbedServer]


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
    link: str = "",
    peers: Peers | None = None,
) -> Plan:
    """Return the plan of a test bed. `programs` maps each engine to its program on the host. `ready_made` is the name
    of an application that the agent installs. Every plan has new random ports.
    """
    address = PEER if peers else FAR if case.network or isolated else "127.0.0.1"
    ground = _Ground(settings, address, bool(case.arguments.get("tls")), as_root)
    lots = _lots(setups, programs, ground)
    request = TestbedRequest(
        id=ident,
        files=[{"path": path, "text": text} for path, text in _texts(lots, ground, content, ready_made).items()],
        fill=[{"path": f"www/{name}", "bytes": size} for name, size in (*content.sizes, *case.sizes)],
        folders=["www", *(name for setup in setups for name in _folders(setup))],
        servers=[*_databases(ready_made), *(server for lot in lots for server in lot.servers)],
        listeners=[lot.place.endpoint.target for lot in lots],
        network=case.network.request() if case.network else ({} if isolated or peers else None),
        link=link,
        programs=uploads or {},
        application=ready_made,
    )
    places = [lot.place for lot in lots]
    return _between(request, places, peers) if peers else Plan(request, places)


def _between(request: TestbedRequest, places: list[Place], peers: Peers) -> Plan:
    """Split the plan of a test bed between two hosts: web servers on the first, link and load generator on the other.
    `request` is the request for the whole test bed on one host. The returned plan has one request for each host's
    agent.
    """
    load = replace(request, files=[], fill=[], folders=[], servers=[], application="", peer=peers.request("load"))
    alone = replace(request, network=None, link="", programs={}, peer=peers.request("servers"))
    return Plan(alone, places, load)


def _lots(setups: list[Setup], programs: dict[str, Program], ground: _Ground) -> list[_Lot]:
    ports = random.sample(PORTS, 2 * len(setups))
    return [
        _lot(setup, programs[setup.engine], ground, *own)
        for setup, *own in zip(setups, ports[::2], ports[1::2], strict=True)
    ]


def _lot(setup: Setup, program: Program, ground: _Ground, port: int, php_port: int) -> _Lot:
    made = partial(_files, setup, program, ground)
    endpoint = Endpoint(ground.address, port, NAME if ground.tls else ground.address, ground.tls)
    place = _place(setup, endpoint, _digest(made(PORTS.start, PORTS.start + 1)))
    return _Lot(place, made(port, php_port), _servers(place, program, f"{ground.address}:{php_port}"))


def _texts(lots: list[_Lot], ground: _Ground, content: Content, ready_made: str) -> dict[str, str]:
    """Return {path below the test bed: text} for all files of the test bed whose text the panel sends.
    Files that have only a size are not included; the agent generates their content.
    """
    files = _certificate() if ground.tls else {}
    files |= {f"www/{name}": text for name, text in content.texts}
    files |= main_files.mariadb() if ready_made else {}
    for lot in lots:
        files |= lot.files
    return files


def _databases(ready_made: str) -> list[TestbedServer]:
    return [TestbedServer(main_files.DATABASE, "mariadb", f"{main_files.DATABASE}.sock")] if ready_made else []


def _folders(setup: Setup) -> list[str]:
    own = [f"{setup.slug}/temp", f"{setup.slug}/conf.d"]
    return [*own, main_files.pool(setup)] if setup.php == "lsphp-tcp" else own


def _files(setup: Setup, program: Program, ground: _Ground, port: int, php_port: int) -> dict[str, str]:
    """Return {path below the test bed: text} of the configuration files of one web server and its PHP."""
    has_fpm = setup.php_children and setup.php == "fpm"
    pool = main_files.php_fpm(setup, as_root=ground.as_root) if has_fpm else {}
    lsphp = {
        "fpm": None,
        "lsphp-tcp": main_files.Lsphp(address=f"{ground.address}:{php_port}"),
        "lsphp-started": main_files.Lsphp(program=program.lsphp),
    }[setup.php]
    main = main_files.main(setup, ground.settings, as_root=ground.as_root, lsphp=lsphp)
    return main | _site(setup, program, ground.address, port, tls=ground.tls) | pool


def _digest(files: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _place(setup: Setup, endpoint: Endpoint, digest: str) -> Place:
    trees = {"server": setup.slug}
    if setup.php_children:
        trees["application"] = f"{setup.slug}/lsphp*" if setup.php == "lsphp-started" else main_files.pool(setup)
    return Place(setup, endpoint, trees, digest)


def _servers(place: Place, program: Program, php: str) -> list[TestbedServer]:
    """Return the servers to start for one configuration, in start order: its PHP processes, then its web server.
    `php` is the address at which the configuration's own lsphp listens.
    """
    setup = place.setup
    pools = []
    if setup.php_children and setup.php == "fpm":
        pools = [TestbedServer(main_files.pool(setup), "php-fpm", "php.sock")]
    elif setup.php == "lsphp-tcp":
        pools = [TestbedServer(main_files.pool(setup), "lsphp", php, program.lsphp, setup.php_children)]
    return [*pools, TestbedServer(setup.slug, setup.engine, place.endpoint.target, program.binary)]


def request_json(request: TestbedRequest) -> dict[str, object]:
    data: dict[str, object] = plain(request)
    return data


def _certificate() -> dict[str, str]:
    bundle = self_signed([NAME], now=datetime.datetime.now(datetime.UTC), days=2)
    return {"tls/testbed.crt": bundle.certificate_pem, "tls/testbed.key": bundle.private_key_pem}


def able(setup: Setup, program: Program) -> Setup:
    """Return the configuration, with HTTP/3 added to its protocols if the host's nginx was built with HTTP/3."""
    if setup.engine != "nginx" or not program.modules or not Dialect.of(_web_server(setup, program)).http3:
        return setup
    return replace(setup, protocols=(*setup.protocols, "h3"))


def _web_server(setup: Setup, program: Program) -> WebServerSpec:
    return WebServerSpec(
        engine=setup.engine,
        layout="conf_d",
        config_root=main_files.config_root(setup),
        log_dir=main_files.home(setup.slug),
        version=program.version,
        modules=program.modules,
        site_roots=(main_files.ROOT,),
        own_ports=frozenset(),
    )


def _site(setup: Setup, program: Program, address: str, port: int, *, tls: bool) -> dict[str, str]:
    """Return {path below the test bed: text} of a configuration's site, rendered like a deployed site of the panel."""
    web_server = _web_server(setup, program)
    spec = site(setup, address, port, tls=tls)
    files = [*render(spec, web_server), *render_web_server([spec], web_server)]
    return {file.path.removeprefix(f"{main_files.ROOT}/"): file.text for file in files}


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
    if setup.php_children and setup.php == "fpm":
        pools = (PhpPool("php", f"unix:{main_files.home(main_files.pool(setup))}/php.sock"),)
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
    return SiteSpec(name="testbed", blocks=(block,), php_pools=pools)


def network_words(network: Network | None) -> str:
    return network.words if network else "loopback of this host"
