"""Adopted proxies send the same headers about the visitor as the web server's own configuration did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from panel.hosts.models import Engine
from tests.deployments.real_host import Machine
from tests.imports.test_same_responses import _enable, _installed, adopted
from tests.support.apache import ApacheInstance
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.waiting import eventually

Received = list[tuple[str, str]]

NGINX_SITE = """\
server {{
    listen {port};
    server_name shop.example;
    root {root}/www/shop;
    location / {{
        proxy_pass http://127.0.0.1:{backend};
        {lines}
    }}
}}
"""
APACHE_SITE = """\
Listen {{port}}
<VirtualHost *:{{port}}>
    ServerName shop.example
    DocumentRoot {{root}}/www/shop
    {lines}
    ProxyPass / http://127.0.0.1:{backend}/
</VirtualHost>
"""
# Of a load balancer in front of the host, and of visitors who send what they like.
REQUESTS: list[dict[str, str]] = [
    {},
    {"X-Forwarded-For": "203.0.113.9, 198.51.100.7", "X-Forwarded-Proto": "https", "X-Real-IP": "203.0.113.9"},
    {"X-Forwarded-For": "unknown", "X-Forwarded-Host": "other.example", "Forwarded": "for=203.0.113.9"},
    {"Upgrade": "websocket", "Connection": "Upgrade", "X-Forwarded-Proto": "http"},
]
NGINX_LINES = [
    "",
    "proxy_set_header X-Forwarded-For $http_x_forwarded_for;",
    "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
    "proxy_set_header X-Forwarded-For $remote_addr;",
    "proxy_set_header X-Forwarded-For '';",
    "proxy_set_header X-Forwarded-For '$http_x_forwarded_for, $server_addr';",
    "proxy_set_header X-Real-IP $http_x_real_ip;",
    "proxy_set_header X-Forwarded-Proto $http_x_forwarded_proto;",
    "proxy_set_header X-Forwarded-Proto https; proxy_set_header Host $host;",
    "proxy_set_header Host $http_host; proxy_set_header X-Real-IP $remote_addr;"
    " proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme;",
    "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_http_version 1.1;",
    "proxy_set_header Connection '';",
]
APACHE_LINES = [
    "",
    "ProxyPreserveHost On",
    "ProxyAddHeaders Off",
    "RequestHeader set X-Forwarded-Proto https",
    "RequestHeader unset X-Forwarded-For early",
    "RequestHeader set X-Real-IP expr=%{{REMOTE_ADDR}}",
    "RequestHeader set X-Forwarded-For expr=%{{REMOTE_ADDR}}",
]


@pytest.fixture
def backend() -> Iterator[int]:
    """The port of an application that answers with the headers that it received."""

    class Echo(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(self.headers.items()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def received(machine: Machine) -> list[Received]:
    """The headers about the visitor that the application gets for each request."""
    found = []
    for headers in REQUESTS:
        answer = ask(machine.port, "/path", host=f"shop.example:{machine.port}", headers=headers)
        rows = json.loads(answer.text) if answer.status == 200 else [["status", str(answer.status)]]
        kept = [(name.lower(), value) for name, value in rows if name.lower() not in ("connection", "accept-encoding")]
        found.append(sorted(kept))
    return found


def assert_same(machine: Machine, before: list[Received]) -> None:
    """The application gets what it got before, at once or when the last old worker has ended."""
    if not eventually(lambda: received(machine) == before):
        assert received(machine) == before


@pytest.mark.parametrize("lines", NGINX_LINES)
def test_application_behind_adopted_nginx_gets_the_same_headers(
    remote: Machine, nginx: NginxInstance, backend: int, lines: str
) -> None:
    remote.files("shop")
    text = NGINX_SITE.format(port=remote.port, root=nginx.root, backend=backend, lines=lines)
    (nginx.root / "conf.d" / "shop.conf").write_text(text)
    nginx.reload()
    assert eventually(lambda: ask(remote.port, "/", host="shop.example").status == 200)
    before = received(remote)
    adopted(remote, remote.web_server(nginx, Engine.NGINX), "shop-example")
    assert_same(remote, before)


@pytest.mark.parametrize("lines", APACHE_LINES)
def test_application_behind_adopted_apache_gets_the_same_headers(
    apache_remote: Machine, apache: ApacheInstance, backend: int, lines: str
) -> None:
    machine = apache_remote
    machine.files("shop")
    _enable(machine, apache, APACHE_SITE.format(lines=lines, backend=backend))
    before = received(machine)
    adopted(machine, _installed(machine, apache), "shop-example")
    assert eventually(lambda: received(machine) == before), list(zip(before, received(machine), strict=True))
