"""What else a site can say, each feature by the answer that shows it: TLS with SNI, redirects to https and HSTS, IPv6,
WebSocket, limits of size, compression, listings, failover."""

from __future__ import annotations

from dataclasses import replace

from panel.rendering.spec import (
    Listen,
    Location,
    ServerBlock,
    SiteSpec,
    TlsFiles,
    Upstream,
    UpstreamServer,
)
from tests.suites.conformance.expected_responses import Expected, fixed, one
from tests.suites.conformance.world import World
from tests.support.ports import free_port


def tls_by_name(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The name asked for in the handshake chooses; plain HTTP is led to HTTPS; HSTS goes out over TLS only."""
    port, home = free_port(), world.www.removesuffix("/www")
    files = TlsFiles("own", f"{home}/tls/own.crt", f"{home}/tls/own.key")

    def block(name: str, **more: object) -> ServerBlock:
        listens = (Listen(world.port), Listen(port, tls=True, http2=True))
        return ServerBlock(listens, (name,), tls=files, locations=(fixed("", "/", name),), **more)  # type: ignore[arg-type]

    spec = SiteSpec("tls-by-name", (block("a.test", redirect_to_https=True, hsts_max_age_s=300), block("b.test")))
    hsts = "strict-transport-security"
    return spec, [
        Expected("/x?q=1", 301, headers={"location": f"https://a.test:{port}/x?q=1", hsts: ""}),
        Expected("/x", 200, "a.test", {hsts: "max-age=300"}, port=port, tls=True),
        Expected("/x", 200, "b.test", {hsts: ""}, host="b.test", port=port, tls=True),
        Expected("/x", 200, "b.test", host="b.test"),
    ]


def both_families(world: World) -> tuple[SiteSpec, list[Expected]]:
    """One block on IPv4 and IPv6, and on a second port."""
    other = free_port()
    listens = (Listen(world.port), Listen(world.port, "::"), Listen(other))
    spec = SiteSpec("families", (ServerBlock(listens, ("a.test",), locations=(fixed("", "/", "here"),)),))
    return spec, [
        Expected("/", 200, "here"),
        Expected("/", 200, "here", address="::1"),
        Expected("/", 200, "here", port=other),
    ]


def websocket(world: World) -> tuple[SiteSpec, list[Expected]]:
    """An upgrade passes where the location says so; what asks for none is an ordinary request."""
    spec = one(world, "websocket", Location("", "/socket/", "proxy", upstream="app", websocket=True))
    upgrade = {
        "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    return spec, [
        Expected("/socket/x", 101, headers={"upgrade": "websocket"}, sent=upgrade),
        Expected("/socket/x", 200),
    ]


def limits_of_size(world: World) -> tuple[SiteSpec, list[Expected]]:
    spec = one(
        world,
        "sizes",
        Location("", "/", "proxy", upstream="app"),
        Location("", "/large/", "proxy", upstream="app", client_max_body_mb=2),
        Location("", "/front/", "static", try_files=("$uri", "/app/index.php")),
        Location("~", r"\.php$", "php", php_pool="php"),
        client_max_body_mb=1,
        client_max_header_kb=4,
    )
    return spec, [
        Expected("/", 200, method="POST", sent_body="x" * 1_000_000),
        Expected("/", 413, method="POST", sent_body="x" * 1_100_000),
        Expected("/large/", 200, method="POST", sent_body="x" * 1_100_000),
        Expected("/app/index.php", 200, method="POST", sent_body="x" * 1_000_000),
        Expected("/app/index.php", 413, method="POST", sent_body="x" * 1_100_000),
        Expected("/front/none", 413, method="POST", sent_body="x" * 1_100_000),
        Expected("/front/none", 200, "front:/front/none:", method="POST", sent_body="x" * 1_000_000),
        Expected("/", 200, sent={"X-Long": "x" * 3000}),
        Expected("/", 400, sent={"X-Long": "x" * 5000}),
        Expected(f"/?{'x' * 3000}", 200),
        Expected(f"/?{'x' * 5000}", 414),
    ]


def compressed(world: World) -> tuple[SiteSpec, list[Expected]]:
    spec = one(
        world,
        "compressed",
        Location("", "/", "static"),
        Location("", "/docs/", "static", gzip="off"),
        gzip="on",
        gzip_types=("text/plain",),
    )
    takes = {"Accept-Encoding": "gzip"}
    return spec, [
        Expected("/long.txt", 200, headers={"content-encoding": "gzip"}, sent=takes),
        Expected("/long.txt", 200, headers={"content-encoding": ""}),
        Expected("/docs/long.txt", 200, headers={"content-encoding": ""}, sent=takes),
    ]


def listings(world: World) -> tuple[SiteSpec, list[Expected]]:
    spec = one(
        world,
        "listings",
        Location("", "/", "static"),
        Location("", "/photos/", "static", autoindex=True),
        Location("", "/media/", "static"),
    )
    return spec, [Expected("/photos/", 200), Expected("/media/", 403)]


def failover(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A server that refuses connections is passed over, one that is down is not asked."""
    dead = f"127.0.0.1:{free_port()}"
    servers = (UpstreamServer(dead), UpstreamServer(world.backend, weight=3), UpstreamServer(dead, down=True))
    spec = one(world, "failover", Location("", "/", "proxy", upstream="pool"))
    spec = replace(
        spec,
        blocks=tuple(
            replace(block, locations=(*block.locations, Location("", "/least/", "proxy", upstream="least")))
            for block in spec.blocks
        ),
        upstreams=(Upstream("pool", servers), Upstream("least", servers, balancing="least_conn")),
    )
    return spec, [Expected(path, 200) for path in ("/a", "/b", "/c", "/d", "/least/a", "/least/b", "/least/c")]


def patience(world: World) -> tuple[SiteSpec, list[Expected]]:
    """An upstream that does not answer in time is given up with 504; OpenLiteSpeed waits."""
    quick = Location("", "/late", "proxy", upstream="app", read_timeout_s=1, connect_timeout_s=2)
    return one(world, "patience", quick), [Expected("/late", 504, otherwise={"apache": 502, "openlitespeed": 200})]


FILES = {"long.txt": "long enough to be worth it. " * 100, "docs/long.txt": "long enough to be worth it. " * 100}
SITES = (tls_by_name, both_families, websocket, limits_of_size, compressed, listings, failover, patience)
