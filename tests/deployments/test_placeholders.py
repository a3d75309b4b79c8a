"""The first deployment of a site creates its missing document root with a page, so that it ends at 200, not at 404."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from django.test import Client

from panel.deployments.models import DeploymentStatus
from panel.hosts.models import Engine, WebServer
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance
from tests.support.nginx import NginxInstance

WORDS = "The files of this site have not been published yet."


@pytest.fixture(params=["nginx", "apache"])
def web_server(request: pytest.FixtureRequest, machine: Machine) -> WebServer:
    server: NginxInstance | ApacheInstance = request.getfixturevalue(request.param)
    found = machine.web_server(server, Engine(request.param))
    if request.param == "apache":
        found.version, found.own_ports = "2.4.62", []
        found.save()
    return found


@pytest.fixture
def folder(machine: Machine) -> Path:
    return machine.root / "www" / "new" / "public"


@pytest.fixture
def site(machine: Machine, web_server: WebServer, folder: Path) -> Site:
    return machine.site("new", web_server, root=str(folder))


@pytest.fixture(autouse=True)
def gone(folder: Path, site: Site) -> None:
    """The machine makes a folder for each site's name."""
    shutil.rmtree(folder.parent, ignore_errors=True)


def test_new_site_responds_with_a_placeholder_page(machine: Machine, site: Site, folder: Path, client: Client) -> None:
    plan = machine.plan(site)
    client.force_login(machine.people.owner)
    page = client.get(f"/deployments/{plan.uuid}").content.decode()
    assert f"{folder}/index.html" in page and "This plan creates it with a placeholder page" in page
    assert not folder.exists(), "nothing is created before the confirmation"
    deployment = machine.run(plan)
    assert deployment.status_words == "Verified", deployment.error
    answer = machine.get("new")
    assert answer.status == 200 and WORDS in answer.text
    page = client.get(f"/deployments/{deployment.uuid}").content.decode()
    assert f'href="http://new.example:{machine.port}/"' in page and "Open new" in page
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755 and not [name for name in os.listdir(folder) if name[0] == "."]


def test_files_that_arrive_before_the_deployment_are_kept(machine: Machine, site: Site, folder: Path) -> None:
    plan = machine.plan(site)
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("published")
    assert machine.run(plan).status == DeploymentStatus.SUCCEEDED
    assert machine.get("new").text == "published"


def test_failed_deployment_removes_the_folder_again(
    machine: Machine, site: Site, web_server: WebServer, folder: Path
) -> None:
    plan = machine.plan(site)
    with Path(web_server.paths["main_config"]).open("a") as file:
        file.write("\nnonsense\n")
    deployment = machine.run(plan)
    assert deployment.status == DeploymentStatus.ROLLED_BACK, deployment.status
    assert not folder.parent.exists()


def test_later_deployments_create_nothing(machine: Machine, site: Site, folder: Path) -> None:
    machine.deploy(site)
    missing = machine.root / "www" / "mistyped"
    websites.block_update(actor=machine.people.owner, block=site.blocks.get(), root=str(missing))
    plan = machine.plan(site)
    assert not any(file.if_absent for file in plan.plan.files)
    assert any("does not exist" in note.text for note in plan.plan.warnings)


def test_folder_is_not_created_where_another_account_can_write(machine: Machine, site: Site, folder: Path) -> None:
    folder.parent.mkdir()
    shutil.chown(folder.parent, "www-data")
    plan = machine.plan(site)
    assert not any(file.if_absent for file in plan.plan.files)
    assert machine.run(plan).status == DeploymentStatus.SUCCEEDED
    assert not folder.exists()
