"""Every preset of a new site, deployed to real web servers with a skeleton of its application."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from agents.host import php_sockets
from panel.hosts.models import Engine, WebServer
from panel.websites.freeze import site_spec
from panel.websites.linting import site_findings
from panel.websites.models import Allowance, AllowanceKind, Site
from panel.websites.presets import PRESETS
from panel.websites.services import allowance_create
from tests.api.caller import caller_of, pointers
from tests.deployments.real_host import Machine
from tests.support.cast import signed_in
from tests.support.http_client import Answer
from tests.support.php import PhpFpm
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

FRONT = "<?php echo 'front ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['QUERY_STRING'];"
SOURCE = "<?php echo 'ran ', basename(__FILE__); // source"
# {path of a file below the site's folder: text}
FILES = {
    "index.html": "start",
    ".env": "secret",
    ".git/config": "secret",
    ".well-known/security.txt": "contact",
    "assets/app.js": "assets",
    "static/app.css": "static",
    "media/photo.txt": "media",
    "build/app.js": "build",
    "bundles/ui.js": "bundles",
    "robots.txt": "robots",
    "page.html": "page",
}
PHP_FILES = {
    "index.php": FRONT,
    "other.php": SOURCE,
    "wp-login.php": SOURCE,
    "xmlrpc.php": SOURCE,
    "wp-config.php": SOURCE,
    "wp-admin/index.php": SOURCE,
    "wp-content/uploads/evil.php": SOURCE,
    "wp-content/uploads/evil.phtml": SOURCE,
    "wp-content/uploads/photo.png": "photo",
    "readme.html": "version",
}
HIDDEN: dict[str, Any] = {"/.env": 403, "/.git/config": 403, "/.well-known/security.txt": (200, "contact")}
FRAMEWORK = {
    "/": (200, "front /"),
    "/orders/7?a=b": (200, "front /orders/7?a=b"),
    "/index.php": (200, "front /index.php"),
    "/other.php": 404,
    "/wp-admin/index.php": 404,
    "/build/app.js": (200, "build"),
    "/build/missing.js": 404,
    **HIDDEN,
}
# {preset: {path: status, or (status, beginning of the text)}}
EXPECTED: dict[str, dict[str, Any]] = {
    "static": {"/": (200, "start"), "/page.html": (200, "page"), "/missing": 404, **HIDDEN},
    "spa": {
        "/": (200, "start"),
        "/orders/7": (200, "start"),
        "/assets/app.js": (200, "assets"),
        "/assets/missing.js": 404,
        **HIDDEN,
    },
    "wordpress": {
        "/": (200, "front /"),
        "/2026/11/a-post/?p=1": (200, "front /2026/11/a-post/?p=1"),
        "/wp-login.php": (200, "ran wp-login.php"),
        "/wp-admin/": (200, "ran index.php"),
        "/xmlrpc.php": 403,
        "/wp-config.php": 403,
        "/readme.html": 403,
        "/wp-content/uploads/evil.php": 403,
        "/wp-content/uploads/evil.php/x": 403,
        "/wp-content/uploads/evil.phtml": 403,
        "/wp-content/uploads/photo.png": (200, "photo"),
        **HIDDEN,
    },
    "laravel": FRAMEWORK,
    "symfony": FRAMEWORK | {"/bundles/ui.js": (200, "bundles")},
    "php": {"/": (200, "front /"), "/other.php": (200, "ran other.php"), "/x": (200, "front /x"), **HIDDEN},
    "django": {
        "/": (200, "app / shop.example http"),
        "/static/app.css": (200, "static"),
        "/static/missing.css": 404,
        "/media/photo.txt": (200, "media"),
        "/orders/7?a=b": (200, "app /orders/7?a=b"),
        "/.env": 403,
    },
    "rails": {
        "/": (200, "app / shop.example http"),
        "/assets/app.js": (200, "assets"),
        "/robots.txt": (200, "robots"),
        "/page.html": (200, "app /page.html"),
        "/.env": 403,
    },
    "node": {"/": (200, "app / shop.example http"), "/a%2Fb?c=d": (200, "app /a%2Fb?c=d")},
    "proxy": {"/": (200, "app / shop.example http")},
    "redirect": {"/a?b=c": (301, "")},
}


class App(BaseHTTPRequestHandler):
    """Responds with the request as it arrived: address, host, and scheme."""

    def do_GET(self) -> None:
        host = (self.headers["Host"] or "").partition(":")[0]
        text = f"app {self.path} {host} {self.headers['X-Forwarded-Proto']} {self.headers['X-Forwarded-For']}"
        body = text.encode() if self.headers.get("Upgrade") != "websocket" else b"upgrade"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def app() -> Iterator[str]:
    """Address of an application."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), App)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def fpm(server_root: Path) -> Iterator[PhpFpm]:
    with PhpFpm(server_root / "php") as pool:
        yield pool


@pytest.fixture
def host(placed: tuple[Machine, WebServer]) -> tuple[Machine, int]:
    """A host and the id of its web server."""
    machine, row = placed
    if row.engine == Engine.APACHE:
        row.version, row.own_ports = "2.4.62", []
        row.save()
    else:  # a file of the distribution's package
        params = Path(row.paths["config_root"]) / "fastcgi_params"
        params.write_text(Path("/etc/nginx/fastcgi_params").read_text())
    return machine, row.pk


def matches(answer: Answer, expected: Any) -> bool:
    status, text = expected if isinstance(expected, tuple) else (expected, "")
    return answer.status == status and answer.text.startswith(text)


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_serves_its_application_and_refuses_the_rest(
    host: tuple[Machine, int], preset: str, app: str, fpm: PhpFpm
) -> None:
    machine, web_server = host
    folder = machine.root / "www" / "shop"
    needs = PRESETS[preset].needs
    for name, text in (FILES | (PHP_FILES if "php_address" in needs else {})).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if "php_address" in needs:
        (folder / "index.html").unlink()
    values = {"php_address": fpm.address, "upstream": app, "redirect_to": "https://new.example"}
    sent = {"kind": preset, "name": "shop", "domains": "shop.example", "team": machine.people.team.pk, "tls": ""}
    sent |= {"web_server": web_server, "port": machine.port, **{key: values[key] for key in needs if key in values}}
    browser: Client = signed_in(machine.people.admin)
    made = browser.post("/sites/+new/", sent)
    assert made.status_code == 302, made.context["form"].errors
    site = Site.objects.get()
    found = [f"{item.code} {item.where}" for item in site_findings(site) if item.code != "no-default-server"]
    assert found == []
    machine.deploy(site)
    expected = EXPECTED[preset]
    first, wanted = next(iter(expected.items()))
    assert eventually(lambda: matches(machine.get("shop", first), wanted)), machine.get("shop", first)
    wrong = {
        path: (answer.status, answer.text[:60])
        for path, said in expected.items()
        if not matches(answer := machine.get("shop", path), said)
    }
    assert not wrong
    if preset == "redirect":
        assert machine.get("shop", "/a?b=c").headers["location"] == "https://new.example/a?b=c"
    elif preset not in ("node", "proxy"):
        assert machine.get("shop").headers["x-content-type-options"] == "nosniff"
    log = Path(site.blocks.get().access_log)
    assert eventually(lambda: "GET " in log.read_text())


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_every_preset_is_tried(host: tuple[Machine, int]) -> None:
    assert set(EXPECTED) == set(PRESETS)
    page = signed_in(host[0].people.admin).get("/sites/+new/").content.decode()
    assert all(f'value="{name}"' in page for name in PRESETS)


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_api_creates_sites_from_presets(host: tuple[Machine, int], fpm: PhpFpm) -> None:
    machine, web_server = host
    caller = caller_of(machine.people.owner)
    body = {"team": machine.people.team.slug, "name": "shop", "domains": ["shop.example"], "web_server": web_server}
    lacking = caller.post("sites/from-preset/", body | {"preset": "wordpress"})
    assert lacking.status_code == 422 and pointers(lacking) == ["/php_address"]
    wrong = caller.post("sites/from-preset/", body | {"preset": "node", "upstream": "nowhere"})
    assert wrong.status_code == 422 and pointers(wrong) == ["/upstream"]
    assert not Site.objects.exists()
    owner = caller_of(machine.people.admin)  # who may use every local service
    made = owner.post("sites/from-preset/", body | {"preset": "wordpress", "php_address": fpm.address})
    assert made.status_code == 201, made.content
    viewer = caller_of(machine.people.viewer).post("sites/from-preset/", body | {"preset": "static"})
    assert viewer.status_code == 403


def test_site_listens_on_ipv6_when_that_is_asked_for(host: tuple[Machine, int]) -> None:
    machine, web_server = host
    machine.files("shop", "both")
    body = {"team": machine.people.team.slug, "name": "shop", "domains": ["shop.example"], "web_server": web_server}
    made = caller_of(machine.people.owner).post(
        "sites/from-preset/", body | {"preset": "static", "port": machine.port, "ipv6": True}
    )
    assert made.status_code == 201, made.content
    site = Site.objects.get()
    assert site.web_server is not None
    assert [(row.address, row.port) for row in site_spec(site, site.web_server).blocks[0].listens] == [
        ("", machine.port),
        ("::", machine.port),
    ]
    machine.deploy(site)
    assert machine.answers("shop", "both")
    connection = http.client.HTTPConnection("::1", machine.port, timeout=30)
    connection.request("GET", "/", headers={"Host": "shop.example"})
    assert connection.getresponse().read() == b"both"


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_sockets_of_php_pools_are_offered_to_those_who_may_use_them(host: tuple[Machine, int]) -> None:
    machine, _web_server = host
    Allowance.objects.all().delete()
    machine.host.facts = {"php_sockets": ["/run/php/php8.2-fpm.sock", "/run/php/other.sock", 7]}
    machine.host.save()
    option = '<option value="unix:/run/php/php8.2-fpm.sock">'
    admin, owner = signed_in(machine.people.admin), signed_in(machine.people.owner)
    assert option in admin.get("/sites/+new/").content.decode()
    assert option not in owner.get("/sites/+new/").content.decode()
    allowance_create(
        actor=machine.people.admin,
        kind=AllowanceKind.SERVICE,
        host=machine.host,
        team=machine.people.team,
        value="unix:/run/php/php8.2-fpm.sock",
    )
    page = owner.get("/sites/+new/").content.decode()
    assert option in page and "other.sock" not in page


def test_agent_finds_sockets_of_pools_and_leaves_links_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(php_sockets, "_PLACES", (f"{tmp_path}/*.sock",))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "php8.2-fpm.sock"))
        (tmp_path / "php-fpm.sock").symlink_to("php8.2-fpm.sock")
        (tmp_path / "file.sock").write_text("")
        assert php_sockets.found() == [str(tmp_path / "php8.2-fpm.sock")]
