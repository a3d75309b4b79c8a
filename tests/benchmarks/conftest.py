"""A cast, and sites that really stand on this machine: rows, a private nginx, and the agent as a child process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import LazySettings

from panel.accounts.models import Role, Team, User
from panel.benchmarks.models import Scenario
from panel.benchmarks.runs.services import scenario_create
from panel.deployments.models import Revision, SiteState, SiteStatus
from panel.hosts.models import Connection, Host, HostStatus, Layout, WebServer
from panel.remote import pool
from panel.rendering.spec import to_json
from panel.websites.freeze import site_spec
from panel.websites.models import Listen, PhpPool, ServerBlock, ServerName, Site
from tests.support.apache import ApacheInstance
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port

QUICK = {"concurrency": 4, "duration_s": 1}


@pytest.fixture
def team(db: None) -> Team:
    return Team.objects.create(name="Shop", slug="shop")


def _user(name: str, role: Role, *teams: Team) -> User:
    user = User(username=name, role=role)
    user.set_unusable_password()
    user.save()
    user.teams.set(teams)
    return user


@pytest.fixture
def operator(team: Team) -> User:
    return _user("operator", Role.OPERATOR, team)


@pytest.fixture
def viewer(team: Team) -> User:
    return _user("viewer", Role.VIEWER, team)


@pytest.fixture
def outsider(db: None) -> User:
    return _user("outsider", Role.OPERATOR, Team.objects.create(name="Other", slug="other"))


@pytest.fixture
def admin(db: None) -> User:
    return _user("admin", Role.ADMIN)


@pytest.fixture
def host(db: None) -> Host:
    return Host.objects.create(name="here", connection=Connection.LOCAL, status=HostStatus.READY, layout=Layout.CONF_D)


def deployed(site: Site, number: int = 1) -> Revision:
    """The site's draft as if it had been deployed: a revision, and the note that it stands on its host."""
    assert site.web_server is not None
    spec = to_json(site_spec(Site.objects.get(pk=site.pk), site.web_server))
    digest = hashlib.sha256(json.dumps([spec, number]).encode()).hexdigest()
    revision = Revision.objects.create(
        site=site, number=number, web_server=site.web_server, spec=spec, files=[], digest=digest
    )
    SiteState.objects.update_or_create(site=site, defaults={"status": SiteStatus.LIVE, "revision": revision})
    return revision


def make_site(name: str, team: Team, web_server: WebServer, port: int, *, tls: bool = False) -> Site:
    site = Site.objects.create(name=name, team=team, web_server=web_server)
    block = ServerBlock.objects.create(site=site, root="/srv/www")
    Listen.objects.create(block=block, address="127.0.0.1", port=port, tls=tls, http2=tls)
    ServerName.objects.create(block=block, name=f"{name}.example")
    return site


@pytest.fixture
def web_server(host: Host) -> WebServer:
    paths = {"config_root": "/etc/nginx", "pid_file": "/run/nginx.pid"}
    return WebServer.objects.create(host=host, engine="nginx", layout=Layout.CONF_D, version="1.22.1", paths=paths)


@pytest.fixture
def site(team: Team, web_server: WebServer) -> Site:
    """Deployed on paper only; nothing answers."""
    site = make_site("paper", team, web_server, 8080)
    deployed(site)
    return site


@pytest.fixture
def scenario(operator: User) -> Scenario:
    return scenario_create(
        actor=operator,
        name="Quick",
        tool="ab",
        arguments={**QUICK, "keepalive": False},
        paths=["/"],
        rounds=3,
        warmup_s=0,
        timeout_s=20,
    )


@dataclass(frozen=True)
class Other:
    server: ApacheInstance
    site: Site


class LiveSites:
    """Two sites on one running nginx: `one` and `two`, the same content."""

    def __init__(self, nginx: NginxInstance, one: Site, two: Site) -> None:
        self.nginx, self.one, self.two = nginx, one, two

    def apache(self, name: str) -> Other:
        """The same page on an Apache of its own, on the same host; not started yet."""
        root, port = self.nginx.root / "apache", free_port()
        root.mkdir()
        server = ApacheInstance(root)
        (root / "www" / "index.html").write_text("x" * 100)
        (root / "conf.d" / "site.conf").write_text(
            f"Listen 127.0.0.1:{port}\n<VirtualHost 127.0.0.1:{port}>\nServerName {name}.example\n"
            f"DocumentRoot {root}/www\n<Directory {root}/www>\nRequire all granted\n</Directory>\n</VirtualHost>\n"
        )
        assert self.one.web_server is not None
        web_server = WebServer.objects.create(
            host=self.one.web_server.host, engine="apache", layout=Layout.CONF_D, version="2.4", paths=server.paths
        )
        site = make_site(name, self.one.team, web_server, port)
        deployed(site)
        return Other(server, site)

    def serve(self, site: Site, text: str) -> None:
        (self.nginx.root / "www" / site.name / "index.html").write_text(text)

    def serve_php(self, site: Site, address: str) -> None:
        """A page that works a little and is different every time, by the PHP pool at `address`."""
        root = self.nginx.root
        script = root / "www" / site.name / "time.php"
        script.write_text("<?php $x = ''; for ($i = 0; $i < 2000; $i++) { $x = md5($x); } echo $x, microtime(true);")
        config = root / "conf.d" / f"{site.name}.conf"
        handler = f"include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME {script}; fastcgi_pass {address};"
        before, named = config.read_text().split("server_name", 1)
        config.write_text(f"{before} location ~ php$ {{ {handler} }} server_name{named}")
        self.nginx.reload()
        PhpPool.objects.create(site=site, name="php", address=address)
        deployed(site, number=2)


@pytest.fixture
def live_sites(
    server_root: Path, team: Team, host: Host, settings: LazySettings, tmp_path: Path
) -> Iterator[LiveSites]:
    settings.LOCAL_HOST_ROOT = tmp_path / "host"
    nginx = NginxInstance(server_root)
    web_server = WebServer.objects.create(
        host=host, engine="nginx", layout=Layout.CONF_D, version="1.22.1", paths=nginx.paths
    )
    sites = []
    for name in ("one", "two"):
        port = free_port()
        (server_root / "www" / name).mkdir()
        (server_root / "www" / name / "index.html").write_text("x" * 100)
        (server_root / "conf.d" / f"{name}.conf").write_text(
            f"server {{ listen 127.0.0.1:{port}; return 421; }}\nserver {{ listen 127.0.0.1:{port}; "
            f"server_name {name}.example; root {server_root}/www/{name}; access_log off; }}\n"
        )
        sites.append(make_site(name, team, web_server, port))
        deployed(sites[-1])
    with nginx:
        yield LiveSites(nginx, *sites)
    pool.close()
