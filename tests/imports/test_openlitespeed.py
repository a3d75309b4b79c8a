"""Handwritten OpenLiteSpeed sites are read over a real sshd, adopted and applied, and respond as before.

These tests run where PADDOCK_OPENLITESPEED names an installation (tests/support/openlitespeed.py), because the
distribution has no package. test_openlitespeed_maps.py tests the mapping everywhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from panel.deployments.models import DeploymentStatus
from panel.hosts.models import Engine, Layout
from panel.imports import services
from panel.imports.models import Import
from panel.remote import pool
from panel.rendering.openlitespeed.main import main
from panel.rendering.spec import WebServerSpec
from panel.websites.certificates import self_signed
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.http_client import ask
from tests.support.openlitespeed import OpenLiteSpeedInstance, source
from tests.support.ports import free_port
from tests.support.sshd import SshServer
from tests.support.waiting import eventually

LISTENERS = """\
indexFiles index.html
listener Default {{
  address *:{port}
  secure 0
  map shop shop.example, www.shop.example
  map stays *
  map extra extra.example
}}
listener Secure {{
  address *:{tls}
  secure 1
  keyFile {root}/tls/own.key
  certFile {root}/tls/own.crt
  map shop shop.example
  map stays *
}}
extprocessor app {{
  type proxy
  address 127.0.0.1:{backend}
}}
virtualHost shop {{
  vhRoot {www}/shop
  configFile $SERVER_ROOT/conf/vhosts/$VH_NAME/vhconf.conf
  allowSymbolLink 1
  enableScript 1
  restrained 0
}}
virtualHost stays {{
  vhRoot {www}/stays
  docRoot $VH_ROOT
  allowSymbolLink 1
}}
vhTemplate many {{
  templateFile conf/templates/many.conf
  listeners Default
  member first {{
    vhDomain first.example
    vhAliases *.first.example
  }}
  member second {{
    vhDomain second.example
  }}
}}
include {root}/conf/extra/*.conf
"""
SHOP = """\
docRoot $VH_ROOT/html
index {
  useServer 0
  indexFiles index.html
}
errorpage 404 {
  url /lost.html
}
context /api/ {
  type proxy
  handler app
}
context /files/ {
  location $VH_ROOT/downloads/
  allowBrowse 1
  extraHeaders <<<END
Header set X-Kind file
END
  enableExpires 1
  expiresDefault A3600
}
context /secret/ {
  allowBrowse 0
}
context /raw/ {
  location $VH_ROOT/downloads/
  allowBrowse 1
  addMIMEType text/x-raw txt
}
rewrite {
  enable 1
  rules <<<END_rules
RewriteRule ^/old/(.*)$ /$1 [R=301,L]
END_rules
}
"""
HTACCESS = """\
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteBase /
RewriteRule ^index\\.html$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.html [L]
</IfModule>
"""
TEMPLATE = """\
vhRoot {www}/$VH_NAME
allowSymbolLink 1
virtualHostConfig  {{
  docRoot $VH_ROOT/
  errorpage 404 {{
    url /lost.html
  }}
}}
"""
EXTRA = """\
virtualHost extra {{
  vhRoot {www}/extra
  docRoot $VH_ROOT
  allowSymbolLink 1
  rewrite {{
    enable 1
    autoLoadHtaccess 1
  }}
}}
"""
ASKED = [
    ("shop", "/"), ("www.shop", "/"), ("shop", "/none"), ("shop", "/old/x"), ("shop", "/api/x?y=1"),
    ("shop", "/files/a.txt"), ("shop", "/secret/x"), ("shop", "/raw/a.txt"), ("first", "/"), ("a.first", "/"),
    ("first", "/none"), ("second", "/"), ("stays", "/"), ("who", "/"), ("extra", "/"),
    ("extra", "/a/b?c=d"), ("extra", "/lost.html"),
]  # fmt: skip


class Scene:
    """A host with OpenLiteSpeed and sites of a person's own."""

    def __init__(self, server: OpenLiteSpeedInstance, machine: Machine) -> None:
        self.server, self.machine, self.root = server, machine, server.root
        www = self.root / "www"
        self.values = {"port": machine.port, "tls": free_port(), "backend": free_port(), "root": self.root, "www": www}
        for name in ("shop/html", "shop/downloads", "stays", "first", "second", "extra"):
            machine.files(name)
            (www / name / "lost.html").write_text("lost")
        (www / "shop" / "downloads" / "a.txt").write_text("text")
        (www / "extra" / ".htaccess").write_text(HTACCESS)
        self.write("www/stays/api/x", "from the upstream")
        self.write(
            "tls/own.crt",
            (bundle := self_signed(["shop.example", "www.shop.example"], now=timezone.now())).certificate_pem,
        )
        self.write("tls/own.key", bundle.private_key_pem)
        self.write("conf/vhosts/shop/vhconf.conf", SHOP)
        self.write("conf/templates/many.conf", TEMPLATE.format(**self.values))
        self.write("conf/extra/extra.conf", EXTRA.format(**self.values))
        backend = "listener Back {{\n  address 127.0.0.1:{backend}\n  secure 0\n  map stays *\n}}\n"
        self.write("conf/httpd_config.conf", self.main() + (LISTENERS + backend).format(**self.values))
        machine.root.chmod(0o755)
        self.web_server = machine.web_server(server, Engine.OPENLITESPEED, Layout.VHOSTS)

    def main(self) -> str:
        web_server = WebServerSpec("openlitespeed", "vhosts", f"{self.root}/conf", f"{self.root}/log", "1.9.1")
        (file,) = main(web_server, user="www-data", workers=1, pid_file="", temp_dir=f"{self.root}/tmp")
        return file.text.replace("include paddock.conf\n", "")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def answers(self) -> list[tuple[object, ...]]:
        """What visitors see of the sites."""
        found: list[tuple[object, ...]] = []
        for name, path in ASKED:
            answer = ask(self.machine.port, path, host=f"{name}.example:{self.machine.port}")
            headers = tuple(
                answer.headers.get(name) for name in ("location", "x-kind", "content-type", "cache-control")
            )
            found.append((name, path, answer.status, answer.status < 400 and answer.text, headers))
        return found

    def secure(self, name: str) -> tuple[int, str]:
        answer = ask(self.values["tls"], "/", host=f"{name}.example", tls=True)  # type: ignore[arg-type]
        return answer.status, answer.text

    def read(self) -> Import:
        return services.import_read_host(actor=self.machine.people.admin, web_server=self.web_server)

    def adopt(self, record: Import, *names: str, **values: Any) -> list[Site]:
        people = self.machine.people
        return services.import_adopt(actor=people.admin, record=record, names=names, team=people.team, **values).sites


if source() is not None:

    @pytest.fixture
    def scene(transactional_db: None, server_root: Path) -> Iterator[Scene]:
        server = OpenLiteSpeedInstance(server_root)
        with SshServer(server.root / "sshd") as sshd:
            made = Scene(server, Machine(server.root, sshd))
            with server:
                assert eventually(lambda: made.answers()[0][2] == 200)
                yield made
            pool.close()

    def test_adopted_openlitespeed_sites_respond_as_before(scene: Scene) -> None:
        record = scene.read()
        report = services.report_of(record)
        assert not report.faults
        assert [site.name for site in report.sites] == ["shop", "stays", "first", "second", "extra"]
        assert not [item for site in report.sites for item in site.refused]
        before, files = scene.answers(), {path: path.read_text() for path in (scene.root / "conf").rglob("*.conf")}
        statuses = [200, 200, 404, 301, 200, 200, 403, 200, 200, 200, 404, 200, 200, 200, 200, 200, 200]
        assert [row[2] for row in before] == statuses
        sites = scene.adopt(record, "shop", "first", "extra")
        assert {path: path.read_text() for path in files} == files, "adopting changes nothing on the host"
        plan = scene.machine.plan(*sites)
        assert not plan.plan.drifted
        done = scene.machine.run(plan)
        assert done.status == DeploymentStatus.SUCCEEDED, done.error
        assert eventually(lambda: scene.answers() == before), [
            pair for pair in zip(before, scene.answers(), strict=True) if pair[0] != pair[1]
        ]
        assert eventually(lambda: scene.secure("shop") == (200, "this is shop/html"))
        assert scene.secure("stays") == (200, "this is stays"), "with the listener's own certificate"
        assert done.comparison["complete"]
        assert done.comparison["same"] > 10
        assert not [row["url"] for row in done.comparison["requests"] if "status" in row["differences"]]

    def test_adoption_removes_openlitespeed_sites_and_keeps_other_lines(scene: Scene) -> None:
        scene.machine.deploy(*scene.adopt(scene.read(), "shop", "first", "extra"))
        rest = (scene.root / "conf" / "httpd_config.conf").read_text()
        assert rest.endswith(f"\ninclude {scene.root}/conf/paddock.conf\n")
        assert "virtualHost shop" not in rest
        assert "map shop" not in rest
        assert "member first" not in rest
        assert "virtualHost stays" in rest
        assert "member second" in rest
        assert not (scene.root / "conf" / "extra" / "extra.conf").exists()
        own = (scene.root / "conf" / "vhosts" / "shop" / "vhconf.conf").read_text()
        assert "managed by Paddock" in own
        assert "addmimetype text/x-raw txt" in own, "what the model cannot say stays raw"
        assert f"location {scene.root}/www/shop/downloads/" in own, "with its paths where they were"

    def test_openlitespeed_main_file_keeps_owner_and_group(scene: Scene) -> None:
        """A file of another group keeps its group."""
        main = scene.root / "conf" / "httpd_config.conf"
        main.chmod(0o640)
        os.chown(main, 0, 1235)
        scene.machine.deploy(*scene.adopt(scene.read(), "shop"))
        found = main.stat()
        assert "paddock.conf" in main.read_text()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, 1235, 0o640)

    def test_site_in_conflict_with_existing_listener_is_rejected(scene: Scene) -> None:
        scene.machine.deploy(*scene.adopt(scene.read(), "first"))
        with pytest.raises(ValidationError) as refused:
            scene.machine.site("plain", scene.web_server, port=scene.values["tls"])
        (words,) = refused.value.message_dict["port"]
        assert f"the web server's own listener Secure already uses port {scene.values['tls']} with TLS" in words
        assert scene.secure("stays") == (200, "this is stays")

    def test_remaining_openlitespeed_sites_can_be_adopted_later(scene: Scene) -> None:
        before = scene.answers()
        scene.machine.deploy(*scene.adopt(scene.read(), "shop"))
        record = scene.read()
        assert [site.name for site in services.report_of(record).sites] == ["stays", "first", "second", "extra"]
        scene.machine.deploy(*scene.adopt(record, "stays", "second"))
        assert eventually(lambda: scene.answers() == before), [
            pair for pair in zip(before, scene.answers(), strict=True) if pair[0] != pair[1]
        ]
        text = (scene.root / "conf" / "httpd_config.conf").read_text()
        assert text.count("include") == 2, "of the extra sites, and once of the panel's"

    def test_adopted_site_that_responds_differently_is_rolled_back(scene: Scene) -> None:
        (site,) = scene.adopt(scene.read(), "shop")
        before, text = scene.answers(), (scene.root / "conf" / "httpd_config.conf").read_text()
        location = next(item for item in site.blocks.first().locations.all() if item.pattern == "/secret/")  # type: ignore[union-attr]
        location.handler = "static"
        location.save()
        done = scene.machine.run(scene.machine.plan(site))
        assert done.status == DeploymentStatus.ROLLED_BACK
        assert "wanted: 403, as before" in done.error
        assert (scene.root / "conf" / "httpd_config.conf").read_text() == text
        assert eventually(lambda: scene.answers() == before)
