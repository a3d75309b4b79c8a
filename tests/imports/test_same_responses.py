"""Adopted caches, log formats and rewrites: the real servers respond, cache and log as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from panel.deployments.models import DeploymentStatus
from panel.hosts.models import Engine, WebServer
from panel.imports import services
from panel.rendering.logformats import NGINX
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually

Answer = tuple[int, str | None, str]  # status, Location, text

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
REAL = """\
Listen {port}
<VirtualHost *:{port}>
    ServerName shop.example
    ServerAdmin webmaster@localhost
    DocumentRoot {root}/www/shop
    <Directory {root}/www/shop>
        Options FollowSymLinks
        AllowOverride All
        Require all granted
    </Directory>
    <Location /secret>
        AuthType Basic
        AuthName "Staff only"
        AuthUserFile {root}/passwords
        Require valid-user
    </Location>
    Alias /api {root}/www/manual
    <Directory {root}/www/manual>
        Require all granted
    </Directory>
</VirtualHost>
"""
FRONT = """\
RewriteEngine On
RewriteBase /
RewriteRule ^index\\.html$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.html [L]
<FilesMatch "\\.log$">
    Require all denied
</FilesMatch>
"""
PROXIES = """\
Listen {port}
Listen 127.0.0.1:{backend}
<VirtualHost *:{port}>
    ServerName shop.example
    DocumentRoot {root}/www/shop
    ProxyRequests Off
    ProxyPreserveHost On
    ProxyPass /api http://127.0.0.1:{backend}/docs
    ProxyPass /same http://127.0.0.1:{backend}/same
    ProxyPassReverse /api http://127.0.0.1:{backend}/docs
</VirtualHost>
<VirtualHost 127.0.0.1:{backend}>
    ServerName back.invalid
    DocumentRoot {root}/www/back
</VirtualHost>
"""
MOVED = """\
Listen {port}
<VirtualHost *:{port}>
    ServerName shop.example
    DocumentRoot {root}/www/shop
    Redirect permanent /old https://b.example/new
    Redirect /a/ /b/
    RedirectMatch 301 ^/$ /start
</VirtualHost>
"""
MISSING = """\
Listen {port}
<VirtualHost *:{port}>
    ServerName shop.example
    DocumentRoot {root}/www/shop
    Alias {alias} {root}/www/missing{slash}
    <Directory {root}/www/missing>
        Require all granted
    </Directory>
</VirtualHost>
"""
GUARDED = """\
server {{
    listen {port};
    server_name shop.example;
    root {root}/www/shop;
    location /secret/ {{
        auth_basic "Staff only";
        auth_basic_user_file passwords;
    }}
}}
"""
PASSWORD = {"Authorization": "Basic YW5uOnBhc3N3b3Jk"}  # ann:password
HASHED = "ann:$apr1$8sadkfjl$4aMs39v5T/zu2BXunH0ho1\n"  # openssl passwd -apr1 -salt 8sadkfjl password


def adopted(machine: Machine, web_server: WebServer, *names: str) -> None:
    record = services.import_read_host(actor=machine.people.admin, web_server=web_server)
    done = services.import_adopt(actor=machine.people.admin, record=record, names=names, team=machine.people.team)
    deployment = machine.run(machine.plan(*done.sites))
    assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error


def _enable(machine: Machine, apache: ApacheInstance, text: str) -> None:
    """A person's own file, and the server started with it."""
    (apache.root / "sites-available" / "mine.conf").write_text(text.format(port=machine.port, root=apache.root))
    (apache.root / "sites-enabled" / "mine.conf").symlink_to("../sites-available/mine.conf")
    apache.start()
    assert eventually(lambda: ask(machine.port, "/", host="shop.example").status in (200, 301))


def _installed(machine: Machine, apache: ApacheInstance) -> WebServer:
    web_server = machine.web_server(apache, Engine.APACHE)
    web_server.version = apache.version
    web_server.save()
    return web_server


def _answers(machine: Machine, *paths: str, headers: dict[str, str] | None = None) -> list[Answer]:
    """Status, Location, and the text of good answers."""
    found = [ask(machine.port, path, host=f"shop.example:{machine.port}", headers=headers) for path in paths]
    return [(item.status, item.headers.get("location"), item.text if item.status == 200 else "") for item in found]


def test_adopted_cache_and_log_behave_as_before(remote: Machine, nginx: NginxInstance) -> None:
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
    web_server = remote.web_server(nginx, Engine.NGINX)
    web_server.manages_main_config = True  # what it keeps lies below its own folder then, where a test may write
    web_server.save()
    Path(nginx.root / "temp").mkdir()
    adopted(remote, web_server, "shop-example")
    text = next(path for path in nginx.root.rglob("shop-example.conf") if path.is_file()).read_text()
    assert "proxy_cache_valid 200 3600s;" in text and "Raw directives" not in text
    assert eventually(lambda: keeps() == (True, False))
    log = nginx.root / "log" / "shop.log"
    assert eventually(lambda: log.read_text().rstrip().rpartition(" ")[2].replace(".", "", 1).isdigit())


def _before_and_after(machine: Machine, apache: ApacheInstance, *paths: str) -> tuple[list[Answer], list[Answer]]:
    """What these paths answer, and what they answer once the site is adopted: the same, if it comes to that in time."""
    before = _answers(machine, *paths)
    adopted(machine, _installed(machine, apache), "shop-example")
    assert eventually(lambda: _answers(machine, *paths) == before)
    return before, _answers(machine, *paths)


def test_adopted_alias_serves_same_paths(apache_remote: Machine, apache: ApacheInstance) -> None:
    machine = apache_remote
    machine.files("shop")
    folder = machine.files("manual")
    (folder / "a.txt").write_text("text")
    (folder / "inside").mkdir()
    (folder / "inside" / "b.txt").write_text("hidden")
    _enable(machine, apache, ALIASES)
    paths = ("/", "/docs", "/docs?x=1", "/docs/", "/docs/a.txt", "/docsa.txt", "/docs/inside/b.txt")
    before, after = _before_and_after(machine, apache, *paths)
    assert [status for status, _location, _text in before] == [200, 301, 301, 200, 200, 404, 403]
    assert after == before


def test_adopted_rewrite_rules_redirect_as_before(apache_remote: Machine, apache: ApacheInstance) -> None:
    machine = apache_remote
    machine.files("shop")
    _enable(machine, apache, RULES)
    paths = ("/", "/old/a%20b", "/old/x?y=1", "/find/hats", "/find/hats?page=2", "/start", "/start?x=1", "/none")
    before, after = _before_and_after(machine, apache, *paths)
    assert [status for status, _location, _text in before] == [200, 301, 301, 302, 302, 200, 200, 404]
    assert after == before
    written = next(path for path in apache.root.rglob("shop-example.conf") if path.is_file()).read_text()
    assert "Raw directives" not in written


def test_adopted_site_with_htaccess_and_password_file_responds_as_before(
    apache_remote: Machine, apache: ApacheInstance
) -> None:
    machine = apache_remote
    folder = machine.files("shop")
    machine.files("manual")
    (folder / ".htaccess").write_text(FRONT)
    (folder / "debug.log").write_text("hidden")
    for name, rules in (("uploads/2026/11", "Require all denied\n"), ("secret", "Options +Indexes\n")):
        (folder / name).mkdir(parents=True)
        (folder / name / ".htaccess").write_text(rules)
        (folder / name / "a.txt").write_text(name)
    (apache.root / "passwords").write_text(HASHED)
    _enable(machine, apache, REAL)

    def answers() -> list[Answer]:
        paths = (
            "/",
            "/nice/address",
            "/none.txt?x=1",
            "/debug.log",
            "/uploads/2026/11/a.txt",
            "/api/",
        )
        asked = _answers(machine, *paths, "/secret/a.txt")
        return [*asked, *_answers(machine, "/secret/a.txt", "/secret/", headers=PASSWORD)]

    before = answers()
    assert [status for status, _location, _text in before] == [200, 200, 200, 403, 403, 200, 401, 200, 200]
    web_server = _installed(machine, apache)
    (found,) = services.report_of(services.import_read_host(actor=machine.people.admin, web_server=web_server)).sites
    assert not found.refused
    adopted(machine, web_server, "shop-example")
    assert eventually(lambda: answers() == before), list(zip(before, answers(), strict=True))


def test_adopted_proxied_segments_reach_same_paths(apache_remote: Machine, apache: ApacheInstance) -> None:
    machine = apache_remote
    machine.files("shop")
    folder = machine.files("back")
    for name in ("docs", "same"):
        (folder / name).mkdir()
        (folder / name / "index.html").write_text(f"{name} index")
        (folder / name / "a.txt").write_text(f"{name} a")
    _enable(machine, apache, PROXIES.replace("{backend}", str(free_port())))

    def answers() -> list[tuple[int, str]]:
        found = [item[::2] for item in _answers(machine, "/", "/api/", "/api/a.txt", "/apis", "/same/a.txt", "/same/x")]
        return [(status, text) for status, text in found]

    before = answers()
    assert before[1:3] == [(200, "docs index"), (200, "docs a")] and before[3][0] == 404
    adopted(machine, _installed(machine, apache), "shop-example")
    assert eventually(lambda: answers() == before), list(zip(before, answers(), strict=True))


def test_adopted_segment_redirects_have_same_targets(apache_remote: Machine, apache: ApacheInstance) -> None:
    machine = apache_remote
    machine.files("shop")
    _enable(machine, apache, MOVED)
    paths = ("/", "/old", "/old/", "/old/x?y=1", "/older", "/a/b", "/a", "/index.html")
    before, after = _before_and_after(machine, apache, *paths)
    assert [status for status, _location, _text in before] == [301, 301, 301, 301, 404, 302, 404, 200]
    assert after == before


def test_adopted_password_file_of_web_server_still_protects(remote: Machine, nginx: NginxInstance) -> None:
    folder = remote.files("shop")
    (folder / "secret").mkdir()
    (folder / "secret" / "a.txt").write_text("secret")
    (nginx.root / "passwords").write_text(HASHED)
    (nginx.root / "conf.d" / "shop.conf").write_text(GUARDED.format(root=nginx.root, port=remote.port))
    nginx.reload()

    def statuses() -> list[int]:
        asked = ({}, PASSWORD, {"Authorization": "Basic eDp5"})
        return [ask(remote.port, "/secret/a.txt", host="shop.example", headers=sent).status for sent in asked]

    assert eventually(lambda: statuses() == [401, 200, 401])
    adopted(remote, remote.web_server(nginx, Engine.NGINX), "shop-example")
    text = next(path for path in nginx.root.rglob("shop-example.conf") if path.is_file()).read_text()
    assert f"auth_basic_user_file {nginx.root}/passwords;" in text
    assert eventually(lambda: statuses() == [401, 200, 401])


@pytest.mark.parametrize("alias", ["/static", "/static/"])
def test_adopted_alias_of_a_missing_folder_is_deployed_with_a_warning(
    apache_remote: Machine, apache: ApacheInstance, alias: str
) -> None:
    machine = apache_remote
    machine.files("shop")
    _enable(machine, apache, MISSING.replace("{alias}", alias).replace("{slash}", alias[7:]))
    paths = ("/", "/static/", "/static/a.txt")
    before = _answers(machine, *paths)
    assert [status for status, _location, _text in before] == [200, 404, 404]
    web_server = _installed(machine, apache)
    record = services.import_read_host(actor=machine.people.admin, web_server=web_server)
    done = services.import_adopt(
        actor=machine.people.admin, record=record, names=["shop-example"], team=machine.people.team
    )
    deployment = machine.plan(*done.sites)
    assert any("www/missing" in note.text and "does not exist" in note.text for note in deployment.plan.warnings)
    deployment = machine.run(deployment)
    assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
    assert eventually(lambda: _answers(machine, *paths) == before)
