"""Private copies of a site: its live version and its draft, on two private web servers of the same host. No I/O.

The copies serve the site's own folders and send requests to its own upstreams and PHP pools. Ports, certificates, logs,
caches and rate limits are private, because a second web server could not share them, or would use up limits that
visitors need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import basename

from agents.protocol import TestbedRequest, TestbedServer
from panel.benchmarks.suites.definitions import Settings, Setup
from panel.benchmarks.testbeds import main_files
from panel.previews.asking import Listener
from panel.rendering import challenges, render, render_web_server
from panel.rendering.apache.modules import mpm
from panel.rendering.spec import Listen, Location, RenderedFile, ServerBlock, SiteSpec, TlsFiles, WebServerSpec

LOOPBACK = "127.0.0.1"
BEFORE, AFTER = "before", "after"
# The copy's files are readable on the host, and no request has a password: a hash that no known password has.
_NOBODY = (("nobody", "$2y$10$" + 53 * "."),)
_TLS = TlsFiles("preview", f"{main_files.ROOT}/tls/preview.crt", f"{main_files.ROOT}/tls/preview.key")


@dataclass(frozen=True)
class Version:
    """One version of a site (live or draft) with its web server; `binary` is the path of the web server's program."""

    spec: SiteSpec
    web_server: WebServerSpec
    binary: str


@dataclass(frozen=True)
class Copy:
    """A copy of a site in the test bed. `ports` maps each of the site's sockets to the copy's private port."""

    slug: str
    version: Version
    ports: Mapping[Listener, int]

    @property
    def setup(self) -> Setup:
        engine = self.version.web_server.engine
        return Setup(self.slug, self.slug, engine, mpm=mpm(self.version.web_server).removeprefix("mpm_"))


def listeners(spec: SiteSpec) -> list[Listener]:
    """Return the distinct sockets that the site listens on."""
    return list(dict.fromkeys(Listener.of(listen) for block in spec.blocks for listen in block.listens))


def request(ident: str, copies: Sequence[Copy], tls: tuple[str, str], *, as_root: bool) -> TestbedRequest:
    """Build the agent's request for a test bed that runs one private web server for each copy.
    `ident` is the id of the test bed, `tls` the PEM texts of a certificate and its key.
    """
    files = {"tls/preview.crt": tls[0], "tls/preview.key": tls[1]}
    for copy in copies:
        files |= main_files.main(copy.setup, Settings(workers=1), as_root=as_root)
        files |= {path.removeprefix(f"{main_files.ROOT}/"): text for path, text in _texts(copy).items()}
    return TestbedRequest(
        id=ident,
        files=[{"path": path, "text": text} for path, text in files.items()],
        folders=[f"{copy.slug}/{name}" for copy in copies for name in ("temp", "conf.d")],
        servers=[
            TestbedServer(
                copy.slug, copy.setup.engine, f"{LOOPBACK}:{next(iter(copy.ports.values()))}", copy.version.binary
            )
            for copy in copies
        ],
        listeners=[f"{LOOPBACK}:{port}" for copy in copies for port in copy.ports.values()],
    )


def _texts(copy: Copy) -> dict[str, str]:
    root = main_files.config_root(copy.setup)
    place = main_files.home(copy.slug)
    web_server = replace(
        copy.version.web_server,
        layout="conf_d",
        config_root=root,
        log_dir=place,
        site_roots=(*copy.version.web_server.site_roots, main_files.ROOT),
        own_ports=frozenset(),
        own_listeners=(),
    )
    spec = private(copy.version.spec, copy.ports, place)
    files: Iterable[RenderedFile] = [*render(spec, web_server), *render_web_server([spec], web_server)]
    return {file.path: file.text for file in files if not file.link_target}


def private(spec: SiteSpec, ports: Mapping[Listener, int], place: str) -> SiteSpec:
    """Return a private copy of the site, which listens on `ports`.
    The password files of its locations are in the folder `place`.
    """
    taken: set[int] = set()
    blocks = tuple(_block(block, ports, place, taken) for block in spec.blocks)
    return challenges.without(replace(spec, blocks=blocks, stream_servers=()))


def _block(block: ServerBlock, ports: Mapping[Listener, int], place: str, taken: set[int]) -> ServerBlock:
    """Return the private copy of a server block, which listens on private ports.
    `taken` is the set of private ports that already have a default server; the function adds ports to it.
    """
    listens: dict[int, Listen] = {}
    for item in block.listens:
        port = ports[Listener.of(item)]
        is_default = item.default_server and port not in taken
        listens.setdefault(port, Listen(port, LOOPBACK, tls=item.tls, default_server=is_default))
        taken |= {port} if is_default else set()
    return replace(
        block,
        listens=tuple(listens.values()),
        access_log="off",
        error_log="",
        brotli="",  # a module that the private server may lack
        tls=_TLS if block.tls else None,
        locations=tuple(_location(location, place) for location in block.locations),
    )


def _location(location: Location, place: str) -> Location:
    auth = location.basic_auth
    return replace(
        location,
        basic_auth=replace(auth, users=_NOBODY, path=f"{place}/{basename(auth.path)}") if auth else None,
        rate_limit=None,
        connection_limit=None,
        cache=None,
    )
