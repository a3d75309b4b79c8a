"""nginx and gallop beside each other on one generated configuration, before one application."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.suites.conformance.wire import Answer, Broken, Connection, Request, parsed
from tests.suites.differential import configuration_pieces
from tests.suites.differential.configs import Place
from tests.suites.differential.requests import Sent
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.process import tool
from tests.support.waiting import eventually, is_readable

CHANGED = 1_717_243_200  # of every file: 2024-06-01 12:00 UTC
PASSWORDS = "ann:$apr1$saltsalt$yAAkm4libquA.ZWLHbSBq/\n"
TIMEOUT_S = 20.0
INTERIM = "(interim)"  # the field that tells the interim answers before one


class Address(NamedTuple):
    """Where a server listens, and behind which port it wants the PROXY protocol."""

    host: str
    port: int
    behind: int


APPLICATION = r"""
server {{
    listen 127.0.0.1:{port}; default_type text/x-app; keepalive_requests 100000; absolute_redirect off;
    client_body_buffer_size 64k;
    add_header X-One "one" always; add_header X-One "two" always;
    location / {{
        proxy_set_header X-Line "$request_method $request_uri $server_protocol";
        proxy_set_header X-Host $http_host; proxy_set_header X-Connection $http_connection;
        proxy_set_header X-Length "$content_length/$http_transfer_encoding";
        proxy_set_header X-Body $request_body; proxy_method GET; proxy_pass_request_body off;
        proxy_set_header Content-Length ""; proxy_pass http://127.0.0.1:{inner};
    }}
    location = /fields {{
        add_header Set-Cookie "a=1; domain=inner.test; path=/in/x"; add_header Expires "Thu, 01 Jan 1970 00:00:01 GMT";
        add_header Cache-Control private; add_header X-Accel-Charset utf-8; add_header X-Pad pad;
        add_header Refresh "5; url=http://app/fresh"; add_header Vary Accept; add_header X-Accel-Limit-Rate 0;
        return 200 "fields\n";
    }}
    location = /move {{ return 302 http://app/moved/x; }}
    location = /accel {{ add_header X-Accel-Redirect "/b.txt?accel=1"; return 200 "not this"; }}
    location = /gzip {{ add_header Content-Encoding gzip; alias {www}/b.txt.gz; }}
    location /files/ {{ alias {www}/; default_type text/x-app; }}
    location = /cached {{
        add_header Cache-Control max-age=60; add_header Vary X-Own; add_header ETag '"up"';
        add_header X-Seen $http_x_own;
        return 200 "cached $args $http_x_own $http_if_none_match $request_method\n";
    }}
    location = /chunked {{ sub_filter text TEXT; sub_filter_types *; alias {www}/page.html; }}
    location = /charset {{ default_type "text/html; charset=koi8-r"; return 200 "\xc1\xc2\n"; }}
    location = /empty {{ return 200; }}
    location = /status/304 {{ return 304; }}
    location = /status/401 {{ add_header WWW-Authenticate "Basic realm=app" always; return 401 "app 401\n"; }}
    location = /status/404 {{ return 404 "app 404\n"; }}
    location = /status/503 {{ return 503 "app 503\n"; }}
}}
server {{
    listen 127.0.0.1:{inner}; default_type text/x-app; large_client_header_buffers 8 64k;
    return 200 "$http_x_line host=$http_x_host conn=$http_x_connection len=$http_x_length own=$http_x_own\
 c=$http_cookie type=$http_content_type ae=$http_accept_encoding xff=$http_x_forwarded_for up=$http_upgrade te=$http_te\
 expect=$http_expect range=$http_range empty=$http_x_empty under=$http_x_under body=$http_x_body\n";
}}
"""


@dataclass(frozen=True)
class Pair:
    """What both answered. `status` -1: nothing came in time; -2: what came was no HTTP."""

    sent: Sent
    nginx: Answer
    gallop: Answer


class Backend:
    """What `proxy_pass` reaches, for both servers alike."""

    def __init__(self, port: int) -> None:
        self.port = port

    def with_asked(self, pairs: Iterable[Pair]) -> Iterable[Pair]:
        """The answers, each with what the application was asked for it, where that is known."""
        return pairs


class Heard(Connection):
    """Its answers name the interim ones before them. `opened`: how often it was."""

    opened = 0

    def _ask(self, request: Request) -> Answer:
        self.opened += self._socket is None
        return super()._ask(request)

    def _head(self) -> tuple[int, str, dict[str, str]]:
        status, version, headers = super()._head()
        if 100 <= status < 200 and status != 101:
            told = sorted(f"{name}: {value}" for name, value in headers.items() if name != "date")
            self._interim.append(" ".join([str(status), *told]))
        return status, version, headers

    def _answer(self, request: Request) -> tuple[Answer, bool]:
        self._interim: list[str] = []
        answer, stays = super()._answer(request)
        if self._interim:
            answer = replace(answer, headers={**answer.headers, INTERIM: ", ".join(self._interim)})
        return answer, stays


class Refused(Exception):
    """A server does not take a generated configuration."""


def nginx_binary() -> str:
    """DIFFERENTIAL_NGINX names another nginx than the system's."""
    return os.environ.get("DIFFERENTIAL_NGINX") or tool("nginx")


@cache
def nginx_version() -> str:
    done = subprocess.run([nginx_binary(), "-v"], capture_output=True, text=True, timeout=20)
    return done.stderr.partition("nginx/")[2].split()[0]


def is_old() -> bool:
    """Whether nginx is a release before the one that gallop follows."""
    return tuple(map(int, nginx_version().split("."))) < (1, 31)


def write_files(www: Path) -> None:
    """The site's files, all of one age."""
    for name, text in configuration_pieces.FILES.items():
        path = www / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("b.txt", "page.html"):
        (www / f"{name}.gz").write_bytes(gzip.compress((www / name).read_bytes(), mtime=CHANGED))
    (www / "link.txt").symlink_to("b.txt")
    for path in [www, *www.rglob("*")]:
        os.utime(path, (CHANGED, CHANGED), follow_symlinks=False)


@contextmanager
def application(root: Path) -> Iterator[Backend]:
    """An nginx that answers in many ways."""
    server = NginxInstance(root / "app")
    server.binary = nginx_binary()
    port = free_port()
    text = APPLICATION.format(port=port, inner=free_port(), www=root / "www")
    (root / "app" / "conf.d" / "app.conf").write_text(text)
    with server:
        wait_until_answered(Address("127.0.0.1", port, 0))
        yield Backend(port)


@contextmanager
def both(root: Path, backend: int, make: Callable[[Place], str]) -> Iterator[list[Address]]:
    """Where nginx and gallop serve the configuration that is made: on one port, which redirects name.

    Raises Refused when only one of them takes it, or when none does: the generator means to make what is valid.
    """
    port, behind = free_port(), free_port()
    place = Place(port, behind, backend, str(root / "www"))
    text = make(place)
    servers: list[tuple[NginxInstance, Address]] = []
    for address, server in (
        ("127.0.0.1", NginxInstance(root / "nginx")),
        ("127.0.0.2", GallopInstance(root / "gallop")),
    ):
        own = text.replace("listen 127.0.0.1:", f"listen {address}:")
        if server.engine == "nginx":
            server.binary = nginx_binary()
        else:
            own = f"server_product nginx/{nginx_version()};\n{own}"
        (server.root / "conf.d" / "site.conf").write_text(own)
        (server.root / "htpasswd").write_text(PASSWORDS)
        shutil.rmtree(server.root / "cache", ignore_errors=True)
        seen_log(root, server.root.name).unlink(missing_ok=True)
        servers.append((server, Address(address, port, behind)))
    tests = [server.test() for server, _ in servers]
    if any(done.returncode for done in tests):
        raise Refused("\n".join(done.stderr for done in tests) + text)
    with ExitStack() as stack:
        for server, where in servers:
            stack.enter_context(server)
            wait_until_answered(where)
        yield [where for _, where in servers]


def seen_log(root: Path, server: str) -> Path:
    """Where a server wrote what it saw of each request."""
    return root / server / "log" / "seen.log"


def wait_until_answered(where: Address) -> None:
    def answered() -> bool:
        return (
            _alone(where, Sent("/", version="1.0", data=b"GET / HTTP/1.0\r\nHost: known\r\n\r\n", alone=True)).status
            > 0
        )

    assert eventually(answered, timeout_s=30), f"nothing answers on {where}"


def ask(both: Sequence[Address], several: Sequence[Sent], timeout_s: float = TIMEOUT_S) -> Iterator[Pair]:
    """Each request's two answers, over connections that stay open as long as the servers let them."""
    connections = [Heard(where.port, address=where.host, timeout_s=timeout_s) for where in both]
    try:
        for sent in several:
            if any(_has_ended(connection) for connection in connections):
                # Against its word, as nginx after a 412 that an error page replaced: both count anew.
                for connection in connections:
                    connection.close()
            before = [connection.opened for connection in connections]
            first, second = (_ask(*each, sent) for each in zip(both, connections, strict=True))
            counts = {connection.opened - was for connection, was in zip(connections, before, strict=True)}
            if len(counts) > 1:
                # One was closed while this was sent: it counts its requests from here.
                first, second = (_without_connection(answer) for answer in (first, second))
            yield Pair(sent, first, second)
            if len(counts) > 1 or not {412, -1, -2}.isdisjoint((first.status, second.status)):
                # One of them is closed: by nginx, though it has promised to keep it, or here. Both count anew.
                for connection in connections:
                    connection.close()
    finally:
        for connection in connections:
            connection.close()


def _without_connection(answer: Answer) -> Answer:
    kept = {name: value for name, value in answer.headers.items() if name not in ("connection", "keep-alive")}
    return replace(answer, headers=kept)


def _has_ended(connection: Connection) -> bool:
    """Whether the server has closed a connection that it had promised to keep."""
    if connection._socket is None:
        return False
    if not is_readable(connection._socket):
        return False
    try:
        return not connection._socket.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _ask(where: Address, connection: Connection, sent: Sent) -> Answer:
    if sent.alone:
        return _alone(where, sent)
    try:
        return connection.ask(sent)
    except (TimeoutError, Broken, ValueError) as why:
        connection.close()
        return Answer(-1 if isinstance(why, TimeoutError) else -2, {}, str(why).encode())


def _alone(where: Address, sent: Sent) -> Answer:
    """On a connection of its own, read until the server closes it; an answer without a head is its bytes."""
    data = b""
    port = where.behind if sent.preface else where.port
    try:
        with socket.create_connection((where.host, port), timeout=TIMEOUT_S) as raw:
            raw.sendall(sent.encoded())
            with suppress(ConnectionResetError):  # closed with unread input; what came before it still counts
                while more := raw.recv(65536):
                    data += more
    except TimeoutError:
        return Answer(-1, {}, data)
    except (BrokenPipeError, ConnectionResetError):
        return Answer(0)
    if not data:
        return Answer(0)
    try:
        return parsed(data, sent)
    except (Broken, ValueError):
        return Answer(-2, {}, data)
