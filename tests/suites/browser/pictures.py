"""The guide's pictures of suites, comparisons, benchmarks, imports, explanations and certificates, made of the pages
as they are: not collected with the tests, but by

    PADDOCK_OPENLITESPEED=/usr/local/lsws python -m pytest -n 0 tests/suites/browser/pictures.py

which writes docs/images/. The figures in them are measured, so have nothing else run then. Real servers, as root.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from panel.certificates.models import CertificateWatch
from panel.comparisons import execution
from panel.comparisons.models import Comparison
from panel.hosts.models import Engine, Layout, WebServer
from panel.websites import certificates
from tests.certificates.conftest import World, make_world, world
from tests.certificates.test_watch import look, replaced
from tests.comparisons.conftest import LiveSites, live_sites, logged
from tests.deployments.real_host import Machine
from tests.imports.conftest import agent_home, apache, apache_remote
from tests.imports.test_pages import open_sudo
from tests.suites.browser.test_interaction import page_of
from tests.support.cast import cast, signed_in, web_server
from tests.support.openlitespeed import OpenLiteSpeedInstance, source
from tests.support.waiting import eventually

__all__ = ["agent_home", "apache", "apache_remote", "live_sites", "make_world", "world"]
IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"


def picture(page: Page, name: str, scheme: Any, height: int) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 1280, "height": height})
    taken = io.BytesIO(page.screenshot())
    Image.open(taken).convert("RGB").quantize(256).save(IMAGES / f"{name}.png", optimize=True)


@pytest.mark.django_db(transaction=True)
def test_suites(browser: Browser, live_server: Any) -> None:
    those = cast()
    those.host.web_servers.update(version="1.31.5")
    web_server(those.host, Engine.NATIVE, "", version="0.1.0")
    page = page_of(browser, live_server.url, signed_in(those.admin))
    page.goto("/benchmarks/suites")
    form = page.locator("form.suite-start").first
    form.locator("select[name=host]").select_option("web-1")
    form.locator("summary").click()
    form.get_by_label("Small page, ten concurrent streams", exact=True).check()
    form.get_by_label("HTTP/3", exact=True).check()
    form.locator("[name=bandwidth_mbps]").fill("20")
    form.locator("[name=rtt_ms]").fill("50")
    form.locator("[name=rtt_ms]").blur()
    page.evaluate("scrollTo(0, 0)")
    expect(form.locator(".suite-buttons")).to_contain_text("1 case,")
    picture(page, "suites-dark", "dark", 1150)
    page.context.close()


FOUND = {
    "shop": """ServerAlias www.shop.example
    DocumentRoot {root}/www/shop
    <Directory {root}/www/shop>
        AllowOverride All
        Require all granted
    </Directory>
    Alias /phpmyadmin {root}/www/phpmyadmin
    ErrorDocument 404 /404.html
    Header always set X-Frame-Options SAMEORIGIN
    BrowserMatch "MSIE [2-6]" nokeepalive""",
    "app": """ProxyPreserveHost On
    ProxyPass /api http://127.0.0.1:3000/api timeout=120
    ProxyPass / http://127.0.0.1:3000/
    ProxyPassReverse / http://127.0.0.1:3000/""",
    "old": """DocumentRoot {root}/www/old
    ScriptAlias /cgi-bin/ /usr/lib/cgi-bin/
    Redirect permanent /blog https://blog.example""",
}
FILES_FIRST = """RewriteEngine On
RewriteRule ^index\\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
"""


def test_import_and_which_location(browser: Browser, live_server: Any, apache_remote: Machine, apache: Any) -> None:
    machine, folder = apache_remote, apache.root / "sites-enabled"
    for name, lines in FOUND.items():
        machine.files(name)
        said = f"    ServerName {name}.example\n    {lines.format(root=apache.root)}\n"
        (folder / f"{name}.conf").write_text(f"<VirtualHost *:{machine.port}>\n{said}</VirtualHost>\n")
    (apache.root / "www" / "shop" / ".htaccess").write_text(FILES_FIRST)
    machine.web_server(apache, Engine.APACHE)
    client = signed_in(machine.people.admin)
    open_sudo(client)
    page = page_of(browser, live_server.url, client)
    page.goto(f"/hosts/{machine.host.name}/imports/")
    page.locator("#read").get_by_role("button", name="Read", exact=True).click()
    page.wait_for_url(re.compile(r"/imports/[0-9a-f-]{36}/$"))
    page.get_by_label("Select shop-example").check()
    page.get_by_label("Select app-example").check()
    picture(page, "import", "light", 800)
    page.click("button:has-text('Adopt selected')")
    page.wait_for_selector("#next")
    page.goto(f"/sites/shop-example/explain/?url=http://shop.example:{machine.port}/phpmyadmin/themes/x.css%3Fv=2")
    picture(page, "which-location", "light", 960)
    page.context.close()


def test_which_server(browser: Browser, live_server: Any, live_sites: LiveSites) -> None:
    assert source(), "PADDOCK_OPENLITESPEED names no installation"
    server = OpenLiteSpeedInstance(live_sites.machine.root / "lsws").manage()
    live_sites.web_servers["openlitespeed"] = live_sites.machine.web_server(server, Engine.OPENLITESPEED, Layout.VHOSTS)
    logged(live_sites, ["/"] * 6 + ["/index.html"] * 3 + ["/old"])
    page = page_of(browser, live_server.url, signed_in(live_sites.machine.people.owner))
    page.goto("/sites/shop/servers/")
    for name in ("Apache httpd", "gallop", "OpenLiteSpeed"):
        page.get_by_label(name).check()
    for name, value in (("concurrency", "4"), ("duration_s", "3"), ("rounds", "5")):
        page.fill(f"[name={name}]", value)
    page.click("button:has-text('Start the comparison')")
    page.wait_for_url(re.compile(r"/comparisons/[0-9a-f-]{36}$"))
    execution.comparison_execute(Comparison.objects.get().uuid)
    page.reload()
    expect(page.get_by_role("heading", name="Web servers compared")).to_be_visible()
    picture(page, "which-server", "light", 1060)
    picture(page, "which-server-dark", "dark", 1060)
    page.get_by_role("link", name="Run details").click()
    expect(page.get_by_role("heading", name="Summary")).to_be_visible()
    picture(page, "benchmark", "light", 1000)
    picture(page, "benchmark-dark", "dark", 1000)
    page.context.close()
    server.stop()


def test_certificates(browser: Browser, live_server: Any, world: World) -> None:
    site = world.site(domains=["shop.example", "www.shop.example"])
    order = world.run(world.enable(site, world.authority(), hsts_max_age_s=86_400))
    assert order.status == "succeeded", order.error
    page = page_of(browser, live_server.url, signed_in(world.people.admin))
    page.goto(f"/certificates/sites/{site.name}")
    picture(page, "automatic-https", "light", 1000)
    WebServer.objects.update(is_running=True)
    other = certificates.self_signed(["other.example"], now=timezone.now(), days=90)
    replaced(world, other.certificate_pem, other.private_key_pem)
    assert eventually(lambda: bool(look()) and bool(CertificateWatch.objects.get().problems))
    page.goto(f"/sites/{site.name}/tls/")
    picture(page, "wrong-certificate", "light", 560)
    page.context.close()
