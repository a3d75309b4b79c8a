"""Caches, log formats and rewrites of a person's own configuration: the real servers answer, keep and log as before."""

from __future__ import annotations

from pathlib import Path

from panel.deployments.models import DeploymentStatus
from panel.hosts.models import Engine, EngineInstall
from panel.imports import services
from panel.rendering.logformats import NGINX
from tests.deployments.real import Machine
from tests.support.apache import ApacheInstance
from tests.support.http import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually

SHOP = """\
proxy_cache_path {root}/cache keys_zone=shop:1m max_size=50m;
log_format timed '{timed}';
server {{
    listen {port};
    server_name shop.example;
    root {root}/www/shop;
    access_log {root}/log/shop.log timed;
    location /app/ {{
        proxy_pass http://127.0.0.1:{backend};
        proxy_set_header Host $http_host;
        proxy_cache shop;
        proxy_cache_key $scheme$host$request_uri;
        proxy_cache_valid 200 1h;
        proxy_cache_bypass $http_authorization $is_args;
        proxy_no_cache $http_authorization $is_args;
    }}
}}
server {{
    listen 127.0.0.1:{backend};
    location / {{ return 200 "$request_id"; }}
}}
"""
RULES = """\
Listen {port}
<VirtualHost *:{port}>
    ServerName shop.example
    DocumentRoot {root}/www/shop
    RewriteEngine On
    RewriteRule ^/old/(.*)$ /new/$1 [R=301,L]
    RewriteRule ^/find/([a-z]+)$ /index.html?word=$1 [QSA,R,L]
    RewriteRule ^/start$ /index.html [PT]
</VirtualHost>
"""
ALIASES = """\
Listen {port}
<VirtualHost *:{port}>
    ServerName shop.example
    DocumentRoot {root}/www/shop
    Alias /docs {root}/www/manual
    <Directory {root}/www/manual>
        Require all granted
    </Directory>
    <Directory {root}/www/manual/inside>
        Require all denied
    </Directory>
    <Directory />
        Options FollowSymLinks
    </Directory>
</VirtualHost>
"""


def adopted(machine: Machine, install: EngineInstall, *names: str) -> None:
    record = services.import_read_host(actor=machine.people.admin, install=install)
    done = services.import_adopt(actor=machine.people.admin, record=record, names=names, team=machine.people.team)
    deployment = machine.run(machine.plan(*done.sites))
    assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error


def _enable(machine: Machine, apache: ApacheInstance, text: str) -> None:
    """A person's own file, and the server started with it."""
    (apache.root / "sites-available" / "mine.conf").write_text(text.format(port=machine.port, root=apache.root))
    (apache.root / "sites-enabled" / "mine.conf").symlink_to("../sites-available/mine.conf")
    apache.start()
    assert eventually(lambda: ask(machine.port, "/", host="shop.example").status == 200)


def _installed(machine: Machine, apache: ApacheInstance) -> EngineInstall:
    install = machine.install(apache, Engine.APACHE)
    install.version = apache.version
    install.save()
    return install


def _answers(machine: Machine, *paths: str) -> list[tuple[int, str | None, str]]:
    """Status, Location, and the text of good answers."""
    found = [ask(machine.port, path, host=f"shop.example:{machine.port}") for path in paths]
    return [(item.status, item.headers.get("location"), item.text if item.status == 200 else "") for item in found]


def test_an_adopted_cache_keeps_the_same_answers_and_the_log_the_same_lines(
    remote: Machine, nginx: NginxInstance
) -> None:
    def said(path: str) -> str:
        return ask(remote.port, path, host="shop.example").text

    def keeps() -> tuple[bool, bool]:
        """Whether a second visitor gets the first one's answer: of a plain address, of one with a query."""
        return said("/app/x") == said("/app/x"), said("/app/x?q=1") == said("/app/x?q=1")

    remote.files("shop")
    values = {"root": nginx.root, "port": remote.port, "backend": free_port(), "timed": NGINX["timed"]}
    (nginx.root / "conf.d" / "shop.conf").write_text(SHOP.format(**values))
    nginx.reload()
    assert eventually(lambda: len(said("/app/x")) == 32)
    assert keeps() == (True, False)
    install = remote.install(nginx, Engine.NGINX)
    install.manages_main_config = True  # what it keeps lies below its own folder then, where a test may write
    install.save()
    Path(nginx.root / "temp").mkdir()
    adopted(remote, install, "shop-example")
    text = next(path for path in nginx.root.rglob("shop-example.conf") if path.is_file()).read_text()
    assert "proxy_cache_valid 200 3600s;" in text and "Raw directives" not in text
    assert eventually(lambda: keeps() == (True, False))
    log = nginx.root / "log" / "shop.log"
    assert eventually(lambda: log.read_text().rstrip().rpartition(" ")[2].replace(".", "", 1).isdigit())


def test_a_folder_elsewhere_answers_the_same_paths(apache_remote: Machine, apache: ApacheInstance) -> None:
    machine = apache_remote
    machine.files("shop")
    folder = machine.files("manual")
    (folder / "a.txt").write_text("text")
    (folder / "inside").mkdir()
    (folder / "inside" / "b.txt").write_text("hidden")
    _enable(machine, apache, ALIASES)

    def answers() -> list[tuple[int, str | None, str]]:
        return _answers(machine, "/", "/docs", "/docs?x=1", "/docs/", "/docs/a.txt", "/docsa.txt", "/docs/inside/b.txt")

    before = answers()
    assert [status for status, _location, _text in before] == [200, 301, 301, 200, 200, 404, 403]
    adopted(machine, _installed(machine, apache), "shop-example")
    assert eventually(lambda: answers() == before), list(zip(before, answers(), strict=True))


def test_adopted_rewrite_rules_lead_to_the_same_places(apache_remote: Machine, apache: ApacheInstance) -> None:
    machine = apache_remote
    machine.files("shop")
    _enable(machine, apache, RULES)

    def answers() -> list[tuple[int, str | None, str]]:
        paths = ("/", "/old/a%20b", "/old/x?y=1", "/find/hats", "/find/hats?page=2", "/start", "/start?x=1", "/none")
        return _answers(machine, *paths)

    before = answers()
    assert [status for status, _location, _text in before] == [200, 301, 301, 302, 302, 200, 200, 404]
    adopted(machine, _installed(machine, apache), "shop-example")
    assert eventually(lambda: answers() == before), list(zip(before, answers(), strict=True))
    written = next(path for path in apache.root.rglob("shop-example.conf") if path.is_file()).read_text()
    assert "Raw directives" not in written
