"""Sites on an Apache in Red Hat's layout: conf.d, conf.modules.d and the distribution's main file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from panel.deployments.models import DeploymentStatus
from panel.deployments.planning import services
from panel.hosts.models import Engine, Layout, WebServer
from panel.websites import services as websites
from tests.deployments.real_host import Machine
from tests.support.apache import RedHatApache


@pytest.fixture
def apache(server_root: Path) -> Iterator[RedHatApache]:
    """Stopped: the first site's deployment opens its port."""
    server = RedHatApache(server_root / "rhel")
    yield server
    server.stop()


@pytest.fixture
def web_server(machine: Machine, apache: RedHatApache) -> WebServer:
    found = machine.web_server(apache, Engine.APACHE, Layout.CONF_D)
    found.own_ports = []
    found.save()
    return found


def names(apache: RedHatApache) -> list[str]:
    return sorted(path.name for path in (apache.root / "conf.d").iterdir())


def test_site_file_is_in_conf_d_and_stays_there_when_disabled(
    machine: Machine, apache: RedHatApache, web_server: WebServer
) -> None:
    main = apache.main_config.read_text()
    site = machine.site("shop", web_server)
    machine.deploy(site)
    assert machine.answers("shop", "this is shop")
    assert names(apache) == ["00-paddock-listen.conf", "50-shop.conf"]
    disable = services.site_disable(actor=machine.people.owner, site=site)
    assert disable is not None
    assert machine.run(disable).status == DeploymentStatus.SUCCEEDED, disable.error
    assert names(apache) == ["00-paddock-listen.conf", "50-shop.conf.disabled"]
    assert apache.main_config.read_text() == main


def test_configuration_rejected_by_httpd_is_rolled_back(
    machine: Machine, apache: RedHatApache, web_server: WebServer
) -> None:
    site = machine.site("shop", web_server)
    machine.deploy(site)
    before = (apache.root / "conf.d" / "50-shop.conf").read_text()
    websites.snippet_create(
        actor=machine.people.admin, site=site, engine="apache", text="LogLevel maybe", block=site.blocks.get()
    )
    deployment = machine.run(machine.plan(site))
    assert deployment.status == DeploymentStatus.ROLLED_BACK
    assert "Log level keyword must be one of" in deployment.error
    assert (apache.root / "conf.d" / "50-shop.conf").read_text() == before
    assert machine.answers("shop", "this is shop")
