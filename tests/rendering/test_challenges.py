"""Real servers respond to ACME challenges before any setting of a site applies, and without a reload."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from panel.rendering import challenges, render, render_web_server
from panel.rendering.explain import Request, explain
from panel.rendering.spec import (
    AccessRule,
    BasicAuth,
    Listen,
    Location,
    Rewrite,
    ServerBlock,
    SiteSpec,
    TlsFiles,
    Upstream,
    UpstreamServer,
    WebServerSpec,
)
from tests.rendering.cases import BCRYPT
from tests.rendering.servers import write_certificates, write_files
from tests.support.apache import ApacheInstance
from tests.support.gallop import GallopInstance
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually

SERVERS = {"nginx": NginxInstance, "apache": ApacheInstance, "native": GallopInstance}
TOKEN = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
PATH = f"{challenges.PREFIX}{TOKEN}"


@dataclass(frozen=True)
class Ports:
    plain: int
    secure: int
    upstream: int


def sites(root: Path, ports: Ports) -> list[SiteSpec]:
    """A site for each thing that could stand in a challenge's way, all on one port."""
    plain, secure = Listen(ports.plain), Listen(ports.secure, tls=True)
    tls = TlsFiles("shop", f"{root}/tls/shop.crt", f"{root}/tls/shop.key")
    www = f"{root}/www"
    auth = BasicAuth("Staff", (("ann", BCRYPT),), f"{root}/htpasswd")
    closed = (AccessRule("deny", "all"),)
    blocks = {
        "redirect": ServerBlock((plain, secure), tls=tls, root=www, redirect_to_https=True),
        "auth": ServerBlock((plain,), root=www, locations=(Location("", "/", "static", basic_auth=auth),)),
        "deny": ServerBlock((plain,), root=www, locations=(Location("", "/", "static", access_rules=closed),)),
        "dotfiles": ServerBlock((plain,), root=www, locations=(Location("~", r"/\.", "deny"),)),
        "everything": ServerBlock((plain,), root=www, locations=(Location("~", ".*", "return", return_code=503),)),
        "proxy": ServerBlock((plain,), locations=(Location("", "/", "proxy", upstream="app"),)),
        "files": ServerBlock((plain,), root=www, try_files=("$uri", "/index.html")),
        "rewritten": ServerBlock((plain,), root=www, rewrites=(Rewrite("^/(.*)$", "/index.html", "last"),)),
        "moved": ServerBlock((plain,), root=www, rewrites=(Rewrite("^/(.*)$", "https://b.test/$1", "permanent"),)),
        "own": ServerBlock((plain,), root=www, locations=(Location("", challenges.PREFIX, "deny"),)),
    }
    upstream = Upstream("app", (UpstreamServer(f"127.0.0.1:{ports.upstream}"),))
    return [
        SiteSpec(
            name,
            (replace(block, names=(f"{name}.test",)),),
            (upstream,) if name == "proxy" else (),
            challenge_folder=challenges.folder_of(str(root)),
        )
        for name, block in blocks.items()
    ]


class _Application(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the application")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def ports() -> Iterator[Ports]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Application) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Ports(free_port(), free_port(), server.server_address[1])
        server.shutdown()


@pytest.mark.parametrize("engine", SERVERS)
def test_challenges_are_answered_whatever_the_site_says(engine: str, server_root: Path, ports: Ports) -> None:
    server = SERVERS[engine](server_root)
    web_server = WebServerSpec(
        engine,  # type: ignore[arg-type]
        "sites",
        str(server_root),
        str(server_root / "log"),
        "2.4.60" if engine == "apache" else "",
        own_ports=frozenset(),
        site_roots=(f"{server_root}/www",),
    )
    (server_root / "www" / "index.html").write_text("the site")
    specs = sites(server_root, ports)
    for spec in specs:
        write_certificates(spec)
        write_files(render(spec, web_server), server_root)
    write_files(render_web_server(specs, web_server), server_root)
    with server:
        assert eventually(lambda: ask(ports.plain, host="proxy.test").text == "the application")
        folder = Path(challenges.folder_of(str(server_root)))
        folder.mkdir(parents=True)
        (folder.parent / "secret").write_text("secret")
        (folder / TOKEN).write_text(f"{TOKEN}.print")  # after the server began, which is not told
        for spec in specs:
            host = f"{spec.name}.test"
            answer = ask(ports.plain, PATH, host=host)
            assert (spec.name, answer.status, answer.text) == (spec.name, 200, f"{TOKEN}.print")
            assert ask(ports.plain, f"{challenges.PREFIX}none", host=host).status == 404, spec.name
            for path in ("../secret", "..%2fsecret", "%2e%2e/secret"):
                assert ask(ports.plain, challenges.PREFIX + path, host=host).text != "secret", (spec.name, path)
        assert ask(ports.secure, PATH, host="redirect.test", tls=True).text == f"{TOKEN}.print"
        moved = ask(ports.plain, "/a?b=c", host="redirect.test")
        assert (moved.status, moved.headers["location"]) == (301, f"https://redirect.test:{ports.secure}/a?b=c")
        assert ask(ports.plain, "/.well-known/acme-challengex", host="redirect.test").status == 301
        assert ask(ports.plain, host="auth.test").status == 401
        assert ask(ports.plain, host="deny.test").status == 403
        assert ask(ports.plain, host="everything.test").status == 503
        assert ask(ports.plain, "/x", host="rewritten.test").text == "the site"


def test_explanation_names_the_location_of_challenges() -> None:
    ports = Ports(80, 443, 9)
    for spec in sites(Path("/etc/nginx"), ports):
        found = explain([spec], Request("http", f"{spec.name}.test", 80, PATH))
        assert found.outcome.status in (0, 200, None), (spec.name, found)
        assert challenges.PREFIX in found.steps[-2].text, (spec.name, found)


def test_sites_without_challenges_are_rendered_as_before() -> None:
    spec = replace(sites(Path("/etc/nginx"), Ports(80, 443, 9))[0], challenge_folder="")
    assert challenges.served(spec) is spec
