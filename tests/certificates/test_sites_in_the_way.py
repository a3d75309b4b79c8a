"""Automatic HTTPS for sites whose settings could stand in the way of a challenge, on each web server, from an authority
that rejects half of the nonces.
"""

from __future__ import annotations

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest

from panel.hosts.models import Engine
from panel.websites import services as websites
from panel.websites.models import Site
from tests.certificates.conftest import ENGINES, Make, World
from tests.rendering.cases import BCRYPT
from tests.support.http_client import ask


class _Application(http.server.BaseHTTPRequestHandler):
    """An application that answers every address, challenges too."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the application")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def application() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Application) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def redirected(world: World, name: str) -> Site:
    """A site whose pages are all redirected elsewhere."""
    site = world.site(name)
    _change(world, site, handler="return", return_code=301, return_value="https://elsewhere.example$request_uri")
    return site


def protected(world: World, name: str) -> Site:
    site = world.site(name)
    _change(world, site, basic_auth_realm="Staff", basic_auth_users={"ann": BCRYPT})
    return site


def denied(world: World, name: str) -> Site:
    site = world.site(name)
    _change(world, site, access_rules=[{"action": "deny", "source": "all"}])
    return site


def _change(world: World, site: Site, **values: object) -> None:
    given = {"match": "", "pattern": "/", "handler": "static", **values}
    websites.location_create(actor=world.people.admin, block=site.blocks.get(), **given)


def _status_over_tls(world: World, host: str) -> int:
    """Status of a page for a visitor that trusts the authority's root alone and names the site in the handshake."""
    assert world.pebble is not None
    context = ssl.create_default_context(cadata=world.pebble.root_pem())
    plain = socket.create_connection(("127.0.0.1", world.https_port), 5)
    with context.wrap_socket(plain, server_hostname=host) as secure:
        secure.sendall(f"GET /page HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return int(secure.recv(4096).split()[1])


@pytest.mark.parametrize("engine", ENGINES)
def test_certificates_are_issued_whatever_the_site_does_with_requests(
    make_world: Make, engine: Engine, application: str
) -> None:
    world = make_world(engine)
    account = world.authority(nonce_reject=50)
    sites = {
        "redirect": redirected(world, "redirect"),
        "auth": protected(world, "auth"),
        "deny": denied(world, "deny"),
        "proxy": world.site("proxy", root="", upstream=application),
    }
    statuses = {"redirect": 301, "auth": 401, "deny": 403, "proxy": 200}
    for name, site in sites.items():
        order = world.run(world.enable(site, account))
        assert order.status == "succeeded", (name, [str(row) for row in order.records.all()])
    for name, status in statuses.items():
        assert (name, _status_over_tls(world, f"{name}.example")) == (name, status)
        moved = ask(world.machine.port, "/page", host=f"{name}.example")
        assert (name, moved.status, moved.headers["location"]) == (
            name,
            301,
            f"https://{name}.example:{world.https_port}/page",
        )


FOREIGN = {
    Engine.NGINX: "server { listen %d default_server; server_name _; return 403; }\n",
    Engine.NATIVE: "server { listen %d default_server; server_name _; return 403; }\n",
    Engine.APACHE: "<VirtualHost *:%d>\n  ServerName foreign.example\n  Redirect 403 /\n</VirtualHost>\n",
}


@pytest.mark.parametrize("engine", FOREIGN)
def test_default_server_of_somebody_else_does_not_stand_in_the_way(make_world: Make, engine: Engine) -> None:
    world = make_world(engine)
    port = world.machine.port
    (world.server.root / "conf.d" / "00-foreign.conf").write_text(FOREIGN[engine] % port)
    order = world.run(world.enable(world.site("shop"), world.authority()))
    assert order.status == "succeeded", [str(row) for row in order.records.all()]
    assert _status_over_tls(world, "shop.example") == 404  # /page does not exist
    assert ask(port, host="other.example").status == 403, "the other default server stays what it was"
    assert ask(port, "/page", host="shop.example").status == 301
