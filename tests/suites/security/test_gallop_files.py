"""Generated sites on the gallop binary: none serves a file outside `confine_files`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.support.gallop import GallopInstance
from tests.support.ports import free_port

CANARY = b"canary-7c1e"
SITES, REQUESTS = 60, 60
# What brings text of the request into a path.
SOURCES = [
    "$1",
    "$1$2",
    "$1$2/$3",
    "$arg_f",
    "$http_x",
    "$cookie_c",
    "$uri",
    "$args",
    "$request_uri",
    "$set",
    "$mapped",
]
LOCATIONS = [
    "location ~ ^/(.)(.)?(.*)$ {{ alias {www}/{source}; }}",
    "location ~ ^/(.*)/(.*)$ {{ root {www}/{source}; }}",
    "location /p {{ alias {www}/in/; }}",
    "location /p {{ alias {www}/in/.; }}",
    "location / {{ rewrite ^/(.)(.)?(.*)$ /../{source} break; }}",
    "location / {{ rewrite ^/(.*)(.)(.)$ /{source} break; autoindex on; }}",
    "location / {{ try_files /{source} {source}/ =404; }}",
    "location / {{ index {source}; autoindex on; }}",
    "location / {{ error_page 404 403 /{source}; }}",
    "location / {{ if (-f {www}/{source}) {{ rewrite ^ /{source} break; }} }}",
    "location / {{ ssi on; ssi_types *; try_files /in/page.shtml =404; }}",
    "location / {{ root {source}; }}",
    "location / {{ add_after_body /{source}; }}",
    "location / {{ gzip_static always; alias {www}/{source}; }}",
    "location / {{ random_index on; root {www}/{source}; }}",
]
STEPS = ["..", ".", "...", "in", "out", "link", "page", "%2e%2e", "%2e.", "..%2f", "p..", "p./..", "", "secret", "etc"]


def _site(chance: Random, port: int, www: Path) -> str:
    source = chance.choice(SOURCES)
    rewritten = chance.choice(["", "rewrite ^/a/(.*)$ /$1 last;", "rewrite ^/b(.*)$ /../$1;"])
    location = chance.choice(LOCATIONS).format(www=www, source=source)
    start = f"listen 127.0.0.1:{port}; root {www}; confine_files {www}; set $set $arg_f$1;"
    return f"server {{ {start} {rewritten} {location} }}"


def _path(chance: Random) -> str:
    return "/".join(chance.choice(STEPS) for _ in range(chance.randint(1, 6)))


def _requests(chance: Random, root: Path) -> Iterator[bytes]:
    for _ in range(REQUESTS):
        target = "/" + chance.choice(["", "a/", "b/", "p", "p/"]) + _path(chance)
        path = _path(chance)
        value = chance.choice([path, f"../{path}/secret", f"../../..{root}/secret", f"{root}/secret"])
        fields = f"Host: x\r\nX: {value}\r\nCookie: c={value}\r\nConnection: close"
        yield f"GET {target}?f={value} HTTP/1.1\r\n{fields}\r\n\r\n".encode()


def _answer(port: int, request: bytes) -> bytes:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
        connection.sendall(request)
        found = b""
        while data := connection.recv(65536):
            found += data
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    www = tmp_path / "www"
    (www / "in").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    for folder in (tmp_path, tmp_path / "out"):
        for name in ("secret", "secret.gz", "index.html", "page.shtml"):
            (folder / name).write_bytes(CANARY)
    (www / "in" / "page.shtml").write_text(
        '<!--# include virtual="/$arg_f" --><!--# include virtual="/a/../secret" -->'
    )
    (www / "in" / "index.html").write_text("inside")
    (www / "page").write_text("inside")
    (www / "out").symlink_to("../out")
    (www / "link").symlink_to(tmp_path / "secret")
    (www / "in" / "out").symlink_to("../..")
    return tmp_path


def test_gallop_serves_no_file_outside_site_folders(root: Path) -> None:
    chance = Random(16)
    server = GallopInstance(root / "server")
    ports = [free_port() for _ in range(SITES)]
    sites = "\n".join(_site(chance, port, root / "www") for port in ports)
    (server.root / "conf.d" / "sites.conf").write_text(f"map $arg_f $mapped {{ default $arg_f; }}\n{sites}\n")
    tested = server.run("-t")
    assert tested.returncode == 0, tested.stderr
    inside = 0
    server.start()
    try:
        for port in ports:
            for request in _requests(chance, root):
                answer = _answer(port, request)
                assert CANARY not in answer, (port, request, sites)
                inside += b"inside" in answer
    finally:
        server.stop()
    assert inside > 20, "files of the site are served"
