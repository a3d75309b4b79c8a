"""The files of a disabled site stay on the host, outside the web server's configuration: nginx and Apache, both
layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from panel.core.errors import ApplicationError, Conflict
from panel.deployments.drift import services as drift
from panel.deployments.models import Deployment, DeploymentStatus, Drift, SiteState, SiteStatus
from panel.deployments.planning import services
from panel.hosts.models import Engine, Layout, WebServer
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance, RedHatApache
from tests.support.nginx import NginxInstance


@dataclass
class Place:
    """One server with two sites on it, shop and other, and where shop's file is while it is served and while not."""

    machine: Machine
    web_server: WebServer
    shop: Site
    served: Path
    disabled: Path

    def disable(self) -> Deployment:
        plan = services.site_disable(actor=self.machine.people.owner, site=self.shop)
        assert plan is not None
        done = self.machine.run(plan)
        assert done.status == DeploymentStatus.SUCCEEDED, done.error
        self.shop.refresh_from_db()
        return done

    def enable(self) -> Deployment:
        websites.site_enable(actor=self.machine.people.owner, site=self.shop, enabled=True)
        self.shop.refresh_from_db()
        return self.machine.deploy(self.shop)

    def is_served(self) -> bool:
        return self.machine.answers("shop", "this is shop")

    def is_not_served(self) -> bool:
        """The other site answers to its name: the servers' own choice for a name that nobody has."""
        return self.machine.answers("shop", "this is other")


Maker = Callable[[Path, NginxInstance], tuple[NginxInstance | ApacheInstance, Engine, Layout, str, str]]


def _apache(root: Path, red_hat: bool) -> ApacheInstance:
    return RedHatApache(root / "rhel") if red_hat else ApacheInstance(root / "apache")


PLACES: dict[str, Maker] = {
    "nginx, conf.d": lambda root, nginx: (
        nginx, Engine.NGINX, Layout.CONF_D, "conf.d/shop.conf", "conf.d/shop.conf.disabled",
    ),
    "nginx, sites-available": lambda root, nginx: (
        nginx, Engine.NGINX, Layout.SITES, "sites-enabled/shop.conf", "sites-available/shop.conf",
    ),
    "Apache, Debian": lambda root, nginx: (
        _apache(root, False), Engine.APACHE, Layout.SITES, "sites-enabled/50-shop.conf", "sites-available/shop.conf",
    ),
    "Apache, Red Hat": lambda root, nginx: (
        _apache(root, True), Engine.APACHE, Layout.CONF_D, "conf.d/50-shop.conf", "conf.d/50-shop.conf.disabled",
    ),
}  # fmt: skip


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, machine: Machine, nginx: NginxInstance, server_root: Path) -> Iterator[Place]:
    server, engine, layout, served, disabled = PLACES[request.param](server_root, nginx)
    web_server = machine.web_server(server, engine, layout)
    web_server.own_ports = []
    web_server.save()
    other, shop = machine.site("other", web_server), machine.site("shop", web_server)
    machine.deploy(other, shop)
    yield Place(machine, web_server, shop, server.root / served, server.root / disabled)
    if server is not nginx:
        server.stop()


def test_file_of_disabled_site_stays_and_is_reused_when_enabled(place: Place) -> None:
    text, links = place.served.read_text(), place.served.is_symlink()
    deployment = place.disable()
    assert place.is_not_served()
    assert place.disabled.read_text() == text
    assert not place.served.exists() and not place.served.is_symlink()
    state = SiteState.objects.get(site=place.shop)
    assert (state.status, state.revision, state.disabled_revision) == (
        SiteStatus.DISABLED,
        None,
        deployment.items.get().previous,
    )
    if not links:
        (renamed,) = [file for file in deployment.plan.files if file.renamed_from]
        assert (renamed.path, renamed.renamed_from) == (str(place.disabled), str(place.served))
        assert renamed.diff == ""
    assert drift.drift_check(place.machine.host) == []
    place.enable()
    assert place.is_served()
    assert place.served.read_text() == text
    assert place.disabled.exists() == links
    assert SiteState.objects.get(site=place.shop).disabled_revision is None


def test_enabling_site_deploys_changes_made_while_disabled(place: Place) -> None:
    place.disable()
    folder = place.machine.files("new-shop")
    websites.block_update(actor=place.machine.people.owner, block=place.shop.blocks.get(), root=str(folder))
    assert "new-shop" not in place.disabled.read_text()
    place.enable()
    assert place.machine.answers("shop", "this is new-shop")
    assert "new-shop" in place.served.read_text()


def test_edit_of_disabled_file_is_drift(place: Place) -> None:
    place.disable()
    text = place.disabled.read_text()
    place.disabled.write_text(text + "# by hand\n")
    (row,) = drift.drift_check(place.machine.host)
    assert row.path == str(place.disabled)
    assert "+# by hand" in row.diff
    websites.site_enable(actor=place.machine.people.owner, site=place.shop, enabled=True)
    plan = place.machine.plan(place.shop)
    assert plan.plan.drifted == [str(place.disabled)]
    with pytest.raises(ApplicationError, match="These files were edited on the host"):
        services.deployment_confirm(actor=place.machine.people.owner, deployment=plan)
    drift.drift_adopt(actor=place.machine.people.admin, drift=row)
    assert drift.drift_check(place.machine.host) == []
    place.machine.deploy(place.shop)
    assert place.served.read_text() == text + "# by hand\n"
    assert place.is_served()


def test_site_enabled_by_hand_is_drift_and_is_removed(place: Place) -> None:
    place.disable()
    place.served.write_text("# somebody's own\n")
    (row,) = drift.drift_check(place.machine.host)
    assert (row.path, row.expected_sha256) == (str(place.served), "")
    with pytest.raises(ApplicationError, match="which is disabled"):
        drift.drift_adopt(actor=place.machine.people.admin, drift=row)
    plan = drift.drift_overwrite(actor=place.machine.people.owner, site=place.shop)
    assert [file.path for file in plan.plan.files if file.action == "remove"] == [str(place.served)]
    place.machine.run(plan, accept_drift=True)
    assert not place.served.exists()
    assert place.disabled.exists()
    assert Drift.objects.get().resolution == "overwritten"
    assert SiteState.objects.get(site=place.shop).disabled_revision is not None


def test_deleting_disabled_site_removes_its_files(place: Place) -> None:
    place.disable()
    with pytest.raises(ApplicationError, match="is disabled, but its files are still on"):
        websites.site_delete(actor=place.machine.people.owner, site=place.shop)
    plan = services.site_delete(actor=place.machine.people.owner, site=place.shop)
    assert plan is not None
    assert place.machine.run(plan).status == DeploymentStatus.SUCCEEDED, plan.error
    assert not place.disabled.exists()
    assert not Site.objects.filter(name="shop").exists()


def test_site_stays_disabled_when_web_server_rejects_it(place: Place) -> None:
    """The test runs on the disabled file, before anything is switched. The renamed file gets its old name back."""
    place.disable()
    text = place.disabled.read_text()
    bad = "limit_req zone=maybe;" if place.web_server.engine == Engine.NGINX else "LogLevel maybe"
    websites.snippet_create(
        actor=place.machine.people.admin,
        site=place.shop,
        engine=place.web_server.engine,
        text=bad,
        block=place.shop.blocks.get(),
    )
    websites.site_enable(actor=place.machine.people.owner, site=place.shop, enabled=True)
    deployment = place.machine.run(place.machine.plan(place.shop))
    assert deployment.status == DeploymentStatus.ROLLED_BACK
    assert place.disabled.read_text() == text
    assert not place.served.exists()
    assert SiteState.objects.get(site=place.shop).disabled_revision is not None


def test_enable_plan_is_closed_when_another_enabled_site(machine: Machine, nginx: NginxInstance) -> None:
    web_server = machine.web_server(nginx, Engine.NGINX, Layout.CONF_D)
    shop, blog = machine.site("shop", web_server), machine.site("blog", web_server)
    machine.deploy(shop)
    disabling = services.site_disable(actor=machine.people.owner, site=shop)
    assert disabling is not None
    machine.run(disabling)
    websites.site_enable(actor=machine.people.owner, site=shop, enabled=True)
    shop.refresh_from_db()
    plan = machine.plan(shop, blog)  # a newer plan of the same sites would take its place
    machine.deploy(shop)
    with pytest.raises(Conflict, match="This plan is outdated because another plan has deployed shop"):
        services.deployment_confirm(actor=machine.people.owner, deployment=plan)


def test_disabled_site_moves_to_another_web_server(machine: Machine, nginx: NginxInstance, server_root: Path) -> None:
    first = machine.web_server(nginx, Engine.NGINX, Layout.CONF_D)
    apache = RedHatApache(server_root / "rhel")
    second = machine.web_server(apache, Engine.APACHE, Layout.CONF_D)
    second.own_ports = []
    second.save()
    shop = machine.site("shop", first)
    machine.deploy(shop)
    disabling = services.site_disable(actor=machine.people.owner, site=shop)
    assert disabling is not None
    machine.run(disabling)
    (plan,) = services.site_move(actor=machine.people.owner, site=shop, web_server=second)
    assert machine.run(plan).status == DeploymentStatus.SUCCEEDED, plan.error
    assert not list((nginx.root / "conf.d").iterdir())
    shop.refresh_from_db()
    assert (shop.web_server, SiteState.objects.get().disabled_revision) == (second, None)


def test_rollback_enables_disabled_site(machine: Machine, nginx: NginxInstance) -> None:
    web_server = machine.web_server(nginx, Engine.NGINX, Layout.CONF_D)
    shop = machine.site("shop", web_server)
    first = machine.deploy(shop).items.get().revision
    assert first is not None
    disabling = services.site_disable(actor=machine.people.owner, site=shop)
    assert disabling is not None
    machine.run(disabling)
    websites.site_enable(actor=machine.people.owner, site=shop, enabled=True)
    shop.refresh_from_db()
    machine.run(services.site_rollback(actor=machine.people.owner, site=shop, revision=first))
    assert machine.answers("shop", "this is shop")
    assert [path.name for path in (nginx.root / "conf.d").iterdir()] == ["shop.conf"]
