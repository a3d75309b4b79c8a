"""The cases: what is asked of a server, and what gallop aims at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compare.load import Load, h2load, http3, wrk
from compare.servers import Server


@dataclass(frozen=True)
class Aim:
    """gallop's CPU per request times `factor` is at most the other's; below 1 for the limit program."""

    server: str
    factor: float


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    needs: str
    run: Callable[[Server], Load]
    aims: tuple[Aim, ...] = ()
    path: str = "/small.html"


def _plain(server: Server, path: str) -> str:
    return f"http://127.0.0.1:{server.place.plain}{path}"


def _tls(server: Server, path: str) -> str:
    return f"https://localhost:{server.place.tls}{path}"


def _http3(server: Server, path: str) -> str:
    named = server.name in ("caddy", "openlitespeed")  # They answer only clients that name a host.
    return _tls(server, path) if named else f"https://127.0.0.1:{server.place.tls}{path}"


def _close(server: Server) -> Load:
    port = server.place.tls if server.name == "limit" else server.place.plain
    return wrk(f"http://127.0.0.1:{port}/small.html", close=True)


LIMIT = 1 / 1.15


def _as_sites_pass(name: str, title: str, run: Callable[[Server], Load], path: str = "/site") -> Case:
    """A case of the reverse proxy with what real sites set."""
    return Case(name, title, "site", run, (Aim("nginx", 1.2),), path)


CASES = [
    Case(
        "http1",
        "HTTP/1.1 keep-alive, 163 bytes, 100 connections",
        "http1",
        lambda s: wrk(_plain(s, "/small.html")),
        (Aim("limit", LIMIT), Aim("nginx", 1.5), Aim("h2o", 1.25)),
    ),
    Case(
        "http1-4k",
        "HTTP/1.1 keep-alive, 4 KB, 100 connections",
        "http1",
        lambda s: wrk(_plain(s, "/4k.html")),
        (Aim("nginx", 1.5), Aim("h2o", 1.25)),
        "/4k.html",
    ),
    Case(
        "close",
        "HTTP/1.1 without keep-alive, 163 bytes",
        "close",
        _close,
        (Aim("limit", LIMIT), Aim("nginx", 1.25)),
    ),
    Case(
        "http2",
        "HTTP/2 over TLS, 100 connections x 10 streams, 163 bytes",
        "http2",
        lambda s: h2load(_tls(s, "/small.html"), requests=100_000),
        (Aim("nginx", 5), Aim("h2o", 1.2)),
    ),
    Case(
        "http3-m10",
        "HTTP/3, 100 connections x 10 streams, 163 bytes",
        "http3",
        lambda s: http3(_http3(s, "/small.html"), requests=100_000, streams=10),
        (Aim("nginx-new", 4), Aim("openlitespeed", 6)),
    ),
    Case(
        "http3-m1",
        "HTTP/3, 100 connections x 1 stream, 163 bytes",
        "http3",
        lambda s: http3(_http3(s, "/small.html"), requests=20_000),
        (Aim("nginx-new", 3),),
    ),
    Case(
        "http3-1m",
        "HTTP/3, 1 MB files, 10 connections, datagrams up to 16 KB (loopback)",
        "http3",
        lambda s: http3(_http3(s, "/1m.bin"), requests=300, connections=10, mtu=16_000),
        (Aim("nginx-new", 2),),
        "/1m.bin",
    ),
    Case(
        "http3-1m-1500",
        "HTTP/3, 1 MB files, 10 connections, datagrams up to 1452 bytes",
        "http3",
        lambda s: http3(_http3(s, "/1m.bin"), requests=300, connections=10),
        (Aim("nginx-new", 1.2),),
        "/1m.bin",
    ),
    Case(
        "http3-10m",
        "HTTP/3, 10 MB files on one connection, datagrams up to 16 KB (loopback)",
        "http3",
        lambda s: http3(_http3(s, "/10m.bin"), requests=30, connections=1, mtu=16_000),
        (Aim("nginx-new", 2),),
        "/10m.bin",
    ),
    Case(
        "http3-10m-1500",
        "HTTP/3, 10 MB files on one connection, datagrams up to 1452 bytes",
        "http3",
        lambda s: http3(_http3(s, "/10m.bin"), requests=30, connections=1),
        (Aim("nginx-new", 1.2),),
        "/10m.bin",
    ),
    Case(
        "large",
        "10 MB files, HTTP/1.1, 4 connections",
        "large",
        lambda s: wrk(_plain(s, "/10m.bin"), connections=4),
        (Aim("nginx", 1),),
        "/10m.bin",
    ),
    Case(
        "large-tls",
        "10 MB files, HTTP/1.1 over TLS, 4 connections",
        "tls",
        lambda s: wrk(_tls(s, "/10m.bin"), connections=4),
        (Aim("nginx", 1),),
        "/10m.bin",
    ),
    Case(
        "php",
        "php-fpm hello page, 20 connections (the server's CPU without php-fpm's)",
        "php",
        lambda s: wrk(_plain(s, "/hello.php"), connections=20),
        (Aim("nginx", 1.3),),
        "/hello.php",
    ),
    Case(
        "proxy",
        "Reverse proxy to the limit program, 100 connections",
        "proxy",
        lambda s: wrk(_plain(s, "/proxy")),
        (Aim("nginx", 1.3),),
        "/proxy",
    ),
    _as_sites_pass(
        "proxy-site",
        "Reverse proxy as sites have it: fields set and added, gzip on, a map for WebSocket, 100 connections",
        lambda s: wrk(_plain(s, "/site")),
    ),
    _as_sites_pass(
        "proxy-near",
        "Reverse proxy without an upstream block: a new connection for each request",
        lambda s: wrk(_plain(s, "/near")),
        path="/near",
    ),
    _as_sites_pass(
        "proxy-tls",
        "Reverse proxy as sites have it, HTTP/1.1 over TLS, 100 connections",
        lambda s: wrk(_tls(s, "/site")),
    ),
    _as_sites_pass(
        "proxy-http2",
        "Reverse proxy as sites have it, HTTP/2 over TLS, 100 connections x 10 streams",
        lambda s: h2load(_tls(s, "/site"), requests=40_000),
    ),
]
