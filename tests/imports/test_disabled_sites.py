"""Sites in files that no web server reads are found, shown as disabled and adopted as disabled."""

from __future__ import annotations

from pathlib import Path

import pytest

from panel.deployments.models import DeploymentStatus
from panel.deployments.planning import services as deployments
from panel.hosts.models import Engine, Layout
from panel.imports import services
from panel.imports.models import Import
from panel.websites import services as websites
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.support.archives import zipped
from tests.support.cast import cast, signed_in
from tests.support.nginx import NginxInstance

SITE = "server {{ listen {port}; server_name {name}.example; root {www}/{name}; }}\n"


@pytest.fixture
def record(remote: Machine, nginx: NginxInstance) -> Import:
    """One live site and two disabled ones, of both layouts, as a person left them."""
    folders = {"live": "conf.d/live.conf", "old": "conf.d/old.conf.disabled", "spare": "sites-available/spare"}
    for name, path in folders.items():
        remote.files(name)
        (nginx.root / path).write_text(SITE.format(port=remote.port, name=name, www=nginx.root / "www"))
    (nginx.root / "sites-available" / "notes.bak").write_text("no configuration at all {")
    nginx.reload()
    web_server = remote.web_server(nginx, Engine.NGINX, Layout.CONF_D)
    return services.import_read_host(actor=remote.people.admin, web_server=web_server)


def test_disabled_sites_are_imported_as_disabled(record: Import, remote: Machine) -> None:
    report = services.report_of(record)
    assert {site.name: site.enabled for site in report.sites} == {
        "live-example": True, "old-example": False, "spare-example": False,
    }  # fmt: skip
    assert not report.faults
    ports = {site.name: site.definition["blocks"][0]["listens"][0]["default_server"] for site in report.sites}
    assert ports == {"live-example": True, "old-example": False, "spare-example": False}
    page = signed_in(remote.people.admin).get(f"/hosts/{remote.host.name}/imports/{record.uuid}/").content.decode()
    assert page.count(">disabled<") == 2
    answer = caller_of(remote.people.admin).get(f"imports/{record.uuid}/").json()
    assert [site["enabled"] for site in answer["sites"]] == [True, False, False]


def test_adopted_site_stays_disabled_until_enabled(record: Import, remote: Machine, nginx: NginxInstance) -> None:
    people = remote.people
    adopted = services.import_adopt(
        actor=people.admin, record=record, names=["old-example", "spare-example", "live-example"], team=people.team
    )
    assert [site.enabled for site in adopted.sites] == [False, False, True]
    old, spare, live = adopted.sites
    remote.deploy(live)
    for site in (old, spare):
        websites.site_enable(actor=people.owner, site=site, enabled=True)
        site.refresh_from_db()
    remote.deploy(old, spare)
    assert remote.answers("old", "this is old")
    assert remote.answers("spare", "this is spare")
    assert not (nginx.root / "conf.d" / "old.conf.disabled").exists()
    assert not (nginx.root / "sites-available" / "spare").exists()


def test_import_skips_disabled_sites_of_the_panel(remote: Machine, nginx: NginxInstance) -> None:
    web_server = remote.web_server(nginx, Engine.NGINX, Layout.CONF_D)
    site = remote.site("shop", web_server)
    remote.deploy(site)
    plan = deployments.site_disable(actor=remote.people.owner, site=site)
    assert plan is not None
    assert remote.run(plan).status == DeploymentStatus.SUCCEEDED
    record = services.import_read_host(actor=remote.people.admin, web_server=web_server)
    assert services.report_of(record).sites == []


def test_files_left_by_adoption_are_not_disabled_sites(remote: Machine, nginx: NginxInstance) -> None:
    remote.files("shop")
    text = SITE.format(port=remote.port, name="shop", www=nginx.root / "www")
    (nginx.root / "sites-available" / "by-hand.conf").write_text(text)
    (nginx.root / "sites-enabled" / "by-hand.conf").symlink_to("../sites-available/by-hand.conf")
    nginx.reload()
    web_server = remote.web_server(nginx, Engine.NGINX)
    people = remote.people
    record = services.import_read_host(actor=people.admin, web_server=web_server)
    adopted = services.import_adopt(actor=people.admin, record=record, names=["shop-example"], team=people.team)
    remote.deploy(*adopted.sites)
    assert (nginx.root / "sites-available" / "by-hand.conf").exists()
    again = services.import_read_host(actor=people.admin, web_server=web_server)
    assert services.report_of(again).sites == []


@pytest.mark.parametrize(
    ("main", "live", "disabled"),
    [
        ("apache2.conf", "sites-enabled/live.conf", "sites-available/old.conf"),
        ("httpd.conf", "conf.d/live.conf", "conf.d/old.conf.disabled"),
    ],
)
def test_apache_layouts_are_recognized_in_upload(db: None, main: str, live: str, disabled: str) -> None:
    people = cast()
    files = {main: f"Listen 80\nIncludeOptional {Path(live).parent}/*.conf\n"}
    for path in (live, disabled):
        name = Path(path).name.partition(".")[0]
        files[path] = f"<VirtualHost *:80>\nServerName {name}.example\nDocumentRoot /srv/www/{name}\n</VirtualHost>\n"
    data = zipped(files)
    record = services.import_read_upload(actor=people.admin, web_server=people.apache, filename="etc.zip", data=data)
    report = services.report_of(record)
    assert {site.name: site.enabled for site in report.sites} == {"live-example": True, "old-example": False}
