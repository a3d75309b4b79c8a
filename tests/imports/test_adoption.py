"""A handwritten configuration is read over a real sshd, adopted, planned and applied, and responds as before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.utils import timezone

from panel.core.errors import ApplicationError
from panel.deployments.models import DeploymentStatus, ReplacedFile
from panel.hosts.models import Engine, WebServer
from panel.imports import services, sources
from panel.imports.models import Import
from panel.websites.certificates import self_signed
from panel.websites.models import Certificate, Site
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually

SHOP = """\
# The shop, by hand
upstream shop_app {{
    server 127.0.0.1:{backend};
    keepalive 4;
}}
server {{
    listen {port};
    server_name shop.example www.shop.example;
    root {www}/shop;
    index index.html;
    add_header X-Site shop always;
    error_page 404 /lost.html;
    location = /about {{ return 301 /about/; }}
    location /app/ {{
        proxy_pass http://shop_app/;
        proxy_set_header X-Shop yes;
    }}
    location ~* \\.(css|js)$ {{
        expires 30d;
        add_header X-Asset 1;
    }}
    location ^~ /private/ {{ deny all; }}
    location /old/ {{ rewrite ^/old/(.*)$ /$1 permanent; }}
}}
server {{
    listen {tls} ssl;
    server_name shop.example;
    ssl_certificate {root}/tls/shop.crt;
    ssl_certificate_key {root}/tls/shop.key;
    root {www}/shop;
}}
"""
# Two sites and a map that both stay useful: only one of them is adopted.
BLOG = """\
map $http_x_kind $kind {{ default plain; special odd; }}
server {{
    listen {port};
    server_name blog.example;
    root {www}/blog;
    location / {{ add_header X-Kind $kind; try_files $uri $uri/ /index.html; }}
}}
server {{
    listen {port};
    server_name stays.example;
    return 200 "stays";
}}
"""
BACKEND = """\
server {{
    listen {backend};
    location / {{ return 200 "$request_uri $http_host $http_x_shop $http_x_forwarded_proto"; }}
}}
"""


class Scene:
    """A host with nginx and hand-written sites."""

    def __init__(self, machine: Machine, nginx: NginxInstance) -> None:
        self.machine, self.nginx, self.root = machine, nginx, nginx.root
        self.values = {"port": machine.port, "tls": free_port(), "backend": free_port(), "root": nginx.root}
        self.values["www"] = nginx.root / "www"
        for name in ("shop", "blog"):
            machine.files(name)
        (nginx.root / "www" / "shop" / "style.css").write_text("body{}")
        (nginx.root / "www" / "shop" / "lost.html").write_text("lost")
        bundle = self_signed(["shop.example"], now=timezone.now())
        (nginx.root / "tls").mkdir()
        (nginx.root / "tls" / "shop.crt").write_text(bundle.certificate_pem)
        (nginx.root / "tls" / "shop.key").write_text(bundle.private_key_pem)
        self.write("sites-available/shop.conf", SHOP)
        (nginx.root / "sites-enabled" / "shop.conf").symlink_to("../sites-available/shop.conf")
        self.write("conf.d/blog.conf", BLOG)
        self.write("conf.d/backend.conf", BACKEND)
        nginx.reload()
        self.web_server = machine.web_server(nginx, Engine.NGINX)
        assert eventually(lambda: self.ask("/").text == "this is shop")

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text.format(**self.values))

    def ask(self, path: str, host: str = "shop.example", **values: object):  # type: ignore[no-untyped-def]
        return ask(self.machine.port, path, host=host, **values)  # type: ignore[arg-type]

    def answers(self) -> list[tuple[object, ...]]:
        """What visitors see of the sites."""
        asked = [("/", "shop.example"), ("/about", "shop.example"), ("/app/x?y=1", "shop.example")]
        asked += [("/style.css", "shop.example"), ("/private/x", "shop.example"), ("/old/a", "shop.example")]
        asked += [("/nothing", "shop.example"), ("/", "blog.example"), ("/any", "blog.example"), ("/", "stays.example")]
        asked += [("/", "who.example")]
        found: list[tuple[object, ...]] = []
        for path, host in asked:
            answer = self.ask(path, host)
            headers = {name: answer.headers.get(name) for name in ("location", "x-site", "x-asset", "x-kind")}
            control = answer.headers.get("cache-control")
            found.append((path, host, answer.status, answer.text, tuple(headers.items()), control))
        return found

    def read(self) -> Import:
        return services.import_read_host(actor=self.machine.people.admin, web_server=self.web_server)

    def adopt(self, record: Import, *names: str) -> list[Site]:
        adopted = services.import_adopt(
            actor=self.machine.people.admin, record=record, names=names, team=self.machine.people.team
        )
        assert adopted.notes == []
        return adopted.sites


@pytest.fixture
def scene(remote: Machine, nginx: NginxInstance) -> Scene:
    return Scene(remote, nginx)


def test_adopted_nginx_sites_respond_as_before(scene: Scene) -> None:
    record = scene.read()
    report = services.report_of(record)
    assert [site.name for site in report.sites] == ["backend", "blog-example", "stays-example", "shop-example"]
    assert not report.faults
    before = scene.answers()
    sites = scene.adopt(record, "shop-example", "blog-example")
    assert scene.answers() == before
    assert (scene.root / "sites-available" / "shop.conf").exists(), "adopting changes nothing on the host"
    plan = scene.machine.plan(*sites)
    actions = {Path(file.path).name: file.action for file in plan.plan.files}
    assert (actions["shop.conf"], actions["blog.conf"]) == ("remove", "put")
    assert not plan.plan.drifted
    done = scene.machine.run(plan)
    assert done.status == DeploymentStatus.SUCCEEDED, done.error
    assert eventually(lambda: scene.answers() == before), [
        pair for pair in zip(before, scene.answers(), strict=True) if pair[0] != pair[1]
    ]
    assert ask(scene.values["tls"], "/", host="shop.example", tls=True).text == "this is shop"  # type: ignore[arg-type]
    comparison = done.comparison
    assert comparison["complete"] and comparison["different"] == 0, [
        (row["url"], row["differences"]) for row in comparison["requests"] if row["differences"]
    ]
    assert comparison["same"] > 15


def test_adoption_removes_site_lines_and_keeps_other_lines(scene: Scene) -> None:
    scene.machine.deploy(*scene.adopt(scene.read(), "shop-example", "blog-example"))
    assert not (scene.root / "sites-enabled" / "shop.conf").is_symlink()
    assert "The shop, by hand" in (scene.root / "sites-available" / "shop.conf").read_text(), "the admin's own stays"
    rest = (scene.root / "conf.d" / "blog.conf").read_text()
    assert "map $http_x_kind" in rest
    assert "stays.example" in rest
    assert "blog.example;" not in rest
    assert all(
        set(row.done) == {pk for part in row.parts for pk in part["sites"]} for row in ReplacedFile.objects.all()
    )


def test_adopted_sites_of_one_file_can_be_deployed_separately(scene: Scene) -> None:
    record = scene.read()
    before = scene.answers()
    blog, stays = scene.adopt(record, "blog-example", "stays-example")
    scene.machine.deploy(blog)
    assert eventually(lambda: scene.answers() == before)
    scene.machine.deploy(stays)
    assert eventually(lambda: scene.answers() == before)
    assert "map $http_x_kind" in (scene.root / "conf.d" / "blog.conf").read_text()


def test_adopted_site_that_responds_differently_is_rolled_back(scene: Scene) -> None:
    """Certificate and key files do not matter when a status differs from today's response."""
    (site,) = scene.adopt(scene.read(), "shop-example")
    location = next(item for item in site.blocks.first().locations.all() if item.pattern == "/about")  # type: ignore[union-attr]
    location.return_code = 410
    location.return_value = ""
    location.save()
    before = scene.answers()
    done = scene.machine.run(scene.machine.plan(site))
    assert done.status == DeploymentStatus.ROLLED_BACK
    assert (
        f"http://shop.example:{scene.machine.port}/about at 127.0.0.1 responds with 410 now and responded with 301"
        in done.error
    )
    assert (scene.root / "sites-enabled" / "shop.conf").is_symlink()
    assert eventually(lambda: scene.answers() == before)
    assert not any(row.done for row in ReplacedFile.objects.all())


def test_adoption_imports_certificate_with_key(scene: Scene) -> None:
    (site,) = scene.adopt(scene.read(), "shop-example")
    block = site.blocks.get(certificate__isnull=False)
    assert block.certificate is not None
    assert block.certificate.names == ["shop.example"]
    assert Certificate.objects.count() == 1


def test_import_skips_sites_of_the_panel(scene: Scene) -> None:
    scene.machine.deploy(*scene.adopt(scene.read(), "shop-example", "blog-example"))
    report = services.report_of(scene.read())
    assert [site.name for site in report.sites] == ["backend", "stays-example"]
    assert "Paddock already manages this configuration as the site shop-example" in [item.note for item in report.items]


def test_sites_in_unchangeable_file_are_not_adopted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The panel may remove a link in the web server's folder, but not lines of a file elsewhere."""
    outside = scene.machine.root.parent / f"{scene.machine.root.name}-outside"
    outside.mkdir()
    monkeypatch.setattr(sources, "READ_ROOTS", (*sources.READ_ROOTS, str(outside)))
    try:
        blog = scene.root / "conf.d" / "blog.conf"
        (outside / "blog.conf").write_text(blog.read_text())
        blog.unlink()
        blog.symlink_to(outside / "blog.conf")
        shop = scene.root / "sites-available" / "shop.conf"
        (outside / "shop.conf").write_text(shop.read_text())
        (scene.root / "sites-enabled" / "shop.conf").unlink()
        (scene.root / "sites-enabled" / "shop.conf").symlink_to(outside / "shop.conf")
        found = {site.name: site.problems for site in services.report_of(scene.read()).sites}
        assert found["shop-example"] == []
        assert "Paddock changes only files below" in found["blog-example"][0]
    finally:
        shutil.rmtree(outside)


def test_file_edited_after_import_is_drift(scene: Scene) -> None:
    (site,) = scene.adopt(scene.read(), "blog-example")
    path = scene.root / "conf.d" / "blog.conf"
    path.write_text(path.read_text() + "# edited\n")
    assert scene.machine.plan(site).plan.drifted == [str(path)]


def test_site_is_not_adopted_twice(scene: Scene) -> None:
    record = scene.read()
    scene.adopt(record, "blog-example")
    with pytest.raises(ApplicationError, match="Already adopted"):
        scene.adopt(record, "blog-example")


# --- Apache ---

APACHE = """\
Listen {port}
<VirtualHost *:{port}>
    ServerName first.example
    DocumentRoot {www}/first
    ErrorDocument 404 /lost.html
    Header always set X-Site first
</VirtualHost>
<VirtualHost *:{port}>
    ServerName shop.example
    ServerAlias www.shop.example *.shop.example
    DocumentRoot {www}/shop
    DirectoryIndex index.html
    <Directory {www}/shop>
        Options -Indexes +FollowSymLinks
        AllowOverride None
        Require all granted
    </Directory>
    Alias /files/ {www}/files/
    Redirect 301 /old /new
    <Location /secret>
        Require all denied
    </Location>
</VirtualHost>
<VirtualHost *:{port}>
    ServerName away.example
    Redirect permanent / https://elsewhere.example/
</VirtualHost>
"""


def test_adopted_apache_sites_respond_as_before(apache_remote: Machine, apache: ApacheInstance) -> None:
    machine = apache_remote
    for name in ("first", "shop", "files"):
        machine.files(name)
    (apache.root / "www" / "first" / "lost.html").write_text("lost")
    text = APACHE.format(port=machine.port, www=apache.root / "www")
    (apache.root / "sites-available" / "mine.conf").write_text(text)
    (apache.root / "sites-enabled" / "mine.conf").symlink_to("../sites-available/mine.conf")
    apache.start()
    asked = [
        ("first", "/"),
        ("first", "/none"),
        ("shop", "/"),
        ("shop", "/files/"),
        ("shop", "/old/x"),
        ("shop", "/secret"),
    ]
    asked += [("a.shop", "/"), ("away", "/x?y=1"), ("who", "/")]

    def answers() -> list[tuple[object, ...]]:
        # The port stands in Host, as browsers say it: redirects to a path are told by it.
        hosts = {name: f"{name}.example:{machine.port}" for name, _path in asked}
        found = [(ask(machine.port, path, host=hosts[name]), name, path) for name, path in asked]
        return [
            (n, p, a.status, a.headers.get("location"), a.headers.get("x-site"), a.status < 300 and a.text)
            for a, n, p in found
        ]

    before = answers()
    web_server: WebServer = machine.web_server(apache, Engine.APACHE)
    web_server.version = apache.version
    web_server.save()
    record = services.import_read_host(actor=machine.people.admin, web_server=web_server)
    report = services.report_of(record)
    assert [site.name for site in report.sites] == ["first-example", "shop-example", "away-example"]
    assert not [item for site in report.sites for item in site.refused]
    names = [site.name for site in report.sites]
    adopted = services.import_adopt(actor=machine.people.admin, record=record, names=names, team=machine.people.team)
    done = machine.run(machine.plan(*adopted.sites))
    assert done.status == DeploymentStatus.SUCCEEDED, done.error
    assert eventually(lambda: answers() == before), [
        pair for pair in zip(before, answers(), strict=True) if pair[0] != pair[1]
    ]
    assert "Listen" in (apache.root / "sites-available" / "mine.conf").read_text()
