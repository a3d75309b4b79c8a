"""Placements on several hosts with a real nginx each: hosts gain and lose tags, and get or lose the sites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from pytest_django import Settings

from panel.core.errors import ApplicationError, Conflict
from panel.deployments.execution import services as execution
from panel.deployments.models import Deployment, DeploymentStatus, StepStatus
from panel.deployments.planning import services as planning
from panel.hosts.models import Connection, Engine, Host, HostStatus, Layout, WebServer
from panel.hosts.services import hosts_tag
from panel.placements.models import Placement
from panel.placements.selectors import members, placements_visible
from panel.placements.services import Planned, placement_delete, placement_set, placements_plan
from panel.remote import pool
from panel.websites.models import Site
from panel.websites.services import location_create
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.support.cast import signed_in
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port

HOSTS = 3


class Fleet:
    """`shop` and `blog` are live on node-0; the other nodes have no sites. All nodes share one machine, so that each
    has ports of its own, by the values of the placements.
    """

    def __init__(self, machine: Machine, servers: Sequence[NginxInstance]) -> None:
        self.machine = machine
        self.admin = machine.people.admin
        self.servers = servers
        self.web_servers = [self._node(number) for number in range(len(servers))]
        self.sites = {name: machine.site(name, self.web_servers[0], port=free_port()) for name in ("shop", "blog")}
        self.ports = {name: {f"node-{n}": free_port() for n in range(1, len(servers))} for name in self.sites}
        self.confirm(planning.deployment_plan(actor=self.admin, sites=list(self.sites.values())))

    def _node(self, number: int) -> WebServer:
        host = Host.objects.create(
            name=f"node-{number}",
            connection=Connection.LOCAL,
            status=HostStatus.READY,
            site_roots=[str(self.machine.root / "www")],
        )
        paths = self.servers[number].paths
        return WebServer.objects.create(host=host, engine=Engine.NGINX, paths=paths, layout=Layout.SITES)

    def place(self, name: str, **values: Any) -> Placement:
        own = {host: {"/blocks/0/listens/0/port": port} for host, port in self.ports[name].items()}
        given = {"tags": ["web"], "values": own} | values
        return placement_set(actor=self.admin, site=self.sites[name], **given)

    def tag(self, *numbers: int, add: Sequence[str] = ("web",), remove: Sequence[str] = ()) -> None:
        hosts = [Host.objects.get(name=f"node-{number}") for number in numbers]
        hosts_tag(actor=self.admin, hosts=hosts, add=add, remove=remove)

    def plan(self) -> Planned:
        return placements_plan(actor=self.admin, placements=placements_visible(self.admin))

    def confirm(self, plans: Sequence[Deployment]) -> None:
        planning.deployment_confirm(actor=self.admin, deployment=plans[0])
        queued = Deployment.objects.filter(status=DeploymentStatus.QUEUED)
        execution.deployments_execute(list(queued.values_list("uuid", flat=True)))
        for plan in plans:
            plan.refresh_from_db()
            assert plan.status == DeploymentStatus.SUCCEEDED, plan.error

    def deploy(self) -> Planned:
        planned = self.plan()
        for batch in (planned.deploy, planned.leave):
            if batch:
                self.confirm(batch)
        return planned

    def text(self, name: str, number: int) -> str:
        return ask(self.ports[name][f"node-{number}"], "/", host=f"{name}.example").text.strip()

    def files(self, number: int) -> set[str]:
        root = Path(self.servers[number].paths["config_root"])
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() or path.is_symlink()}


@pytest.fixture
def fleet(transactional_db: None, server_root: Path, settings: Settings) -> Iterator[Fleet]:
    settings.LOCAL_HOST_ROOT = server_root / "agent-home"
    with ExitStack() as stack:
        servers = [stack.enter_context(NginxInstance(server_root / f"n{number}")) for number in range(HOSTS)]
        yield Fleet(Machine(server_root), servers)
        pool.close()


def test_host_that_gains_the_tag_gets_all_sites_in_one_plan_with_one_reload(fleet: Fleet) -> None:
    fleet.place("shop")
    fleet.place("blog")
    fleet.tag(1)
    planned = fleet.deploy()
    (deployment,) = planned.deploy
    assert deployment.host.name == "node-1" and planned.leave == []
    assert sorted(line.name for line in deployment.plan.sites) == ["blog-node-1", "shop-node-1"]
    assert deployment.steps.filter(name="reload", status=StepStatus.SUCCEEDED).count() == 1
    assert (fleet.text("shop", 1), fleet.text("blog", 1)) == ("this is shop", "this is blog")
    with pytest.raises(ApplicationError, match="up to date"):
        fleet.plan()


def test_host_that_loses_the_tag_is_emptied(fleet: Fleet) -> None:
    empty = fleet.files(1)
    fleet.place("shop")
    fleet.tag(1, 2)
    fleet.deploy()
    assert fleet.text("shop", 2) == "this is shop"
    fleet.tag(1, add=(), remove=("web",))
    planned = fleet.deploy()
    assert planned.deploy == [] and [plan.host.name for plan in planned.leave] == ["node-1"]
    assert fleet.files(1) == empty
    assert set(Site.objects.values_list("name", flat=True)) == {"shop", "blog", "shop-node-2"}
    assert fleet.text("shop", 2) == "this is shop"


def test_change_of_the_site_reaches_every_copy_with_its_own_values(fleet: Fleet) -> None:
    fleet.place("shop")
    fleet.tag(1, 2)
    fleet.deploy()
    block = fleet.sites["shop"].blocks.get()
    location_create(actor=fleet.admin, block=block, pattern="/closed/", handler="deny")
    assert [member.state for member in members(fleet.admin, Placement.objects.get())] == ["due", "due"]
    planned = fleet.deploy()
    assert len(planned.deploy) == 2 and len({plan.batch for plan in planned.deploy}) == 1
    for host, port in fleet.ports["shop"].items():
        assert ask(port, "/closed/", host="shop.example").status == 403, host
    assert [member.state for member in members(fleet.admin, Placement.objects.get())] == ["current", "current"]


def test_value_of_one_host_changes_that_host_alone(fleet: Fleet) -> None:
    fleet.place("shop")
    fleet.tag(1, 2)
    fleet.deploy()
    own = {host: {"/blocks/0/listens/0/port": port} for host, port in fleet.ports["shop"].items()}
    own["node-2"]["/blocks/0/root"] = str(fleet.machine.files("other", "another page"))
    fleet.place("shop", values=own)
    planned = fleet.deploy()
    assert [plan.host.name for plan in planned.deploy] == ["node-2"]
    assert (fleet.text("shop", 1), fleet.text("shop", 2)) == ("this is shop", "another page")


def test_host_without_a_suitable_web_server_is_left_out_and_named(fleet: Fleet) -> None:
    fleet.place("shop")
    WebServer.objects.filter(pk=fleet.web_servers[2].pk).delete()
    fleet.tag(1, 2)
    planned = fleet.deploy()
    assert [plan.host.name for plan in planned.deploy] == ["node-1"]
    assert planned.update.problems == {"node-2": "The host has no web server."}


def test_value_that_does_not_fit_changes_nothing(fleet: Fleet) -> None:
    fleet.tag(1, 2)
    for wrong, words in (
        ({"node-1": {"/blocks/0/listens/0/port": "http"}}, "node-1/blocks/0/listens/0/port"),
        ({"node-1": {"/blocks/7/root": "/srv"}}, "no place /blocks/7/root"),
    ):
        fleet.place("shop", values=wrong)
        with pytest.raises(ValidationError) as refused:
            fleet.plan()
        assert words in str(refused.value)
        assert set(Site.objects.values_list("name", flat=True)) == {"shop", "blog"}
    for wrong in ({"node-1": {"/name": "x"}}, {"node-1": {"name": "x"}}, {"node-1": 3}, [1]):
        with pytest.raises(ValidationError):
            fleet.place("shop", values=wrong)
    with pytest.raises(ValidationError):
        fleet.place("shop", tags=[])


def test_plan_that_is_discarded_is_made_again(fleet: Fleet) -> None:
    fleet.place("shop")
    fleet.tag(1)
    (plan,) = fleet.plan().deploy
    planning.deployment_cancel(actor=fleet.admin, deployment=plan)
    fleet.deploy()
    assert fleet.text("shop", 1) == "this is shop"


def test_copies_become_sites_of_their_own_when_the_placement_is_deleted(fleet: Fleet) -> None:
    placement = fleet.place("shop")
    fleet.tag(1)
    fleet.deploy()
    with pytest.raises(ValidationError, match="is a copy of another site"):
        placement_set(actor=fleet.admin, site=Site.objects.get(name="shop-node-1"), tags=["web"])
    placement_delete(actor=fleet.admin, placement=placement)
    assert fleet.text("shop", 1) == "this is shop"
    assert Site.objects.filter(name="shop-node-1", placed=None).exists()


def test_placement_needs_the_rights_of_the_sites_team(fleet: Fleet) -> None:
    people = fleet.machine.people
    for person in (people.outsider, people.viewer):
        with pytest.raises(PermissionDenied):
            placement_set(actor=person, site=fleet.sites["shop"], tags=["web"])
    placement = fleet.place("shop")
    fleet.tag(1)
    with pytest.raises(PermissionDenied):
        placements_plan(actor=people.viewer, placements=[placement])
    assert not placements_visible(people.outsider).exists()
    stale = placement.row_version
    fleet.place("shop")
    with pytest.raises(Conflict):
        fleet.place("shop", expected_version=stale)


def test_pages_and_api_place_a_site(fleet: Fleet) -> None:
    browser, caller = signed_in(fleet.admin), caller_of(fleet.admin)
    port = fleet.ports["shop"]["node-1"]
    values = f"node-1 /blocks/0/listens/0/port = {port}"
    assert browser.post("/placements/shop", {"tags": "Web", "values": values}).status_code == 302
    fleet.tag(1)
    page = browser.get("/placements/shop").content.decode()
    assert "Adds the copy" in page and values in page
    assert "Plan needed" in browser.get("/placements/").content.decode()
    planned = browser.post("/placements/plan", {"site": "shop"})
    plan = Deployment.objects.get(status=DeploymentStatus.PLANNED)
    assert planned.headers["Location"] == f"/deployments/{plan.uuid}"
    fleet.confirm([plan])
    assert "is a copy of shop" in " ".join(browser.get("/sites/shop-node-1/").content.decode().split())
    shown = caller.get("placements/shop/").json()
    assert (shown["tags"], shown["copies"]) == (["web"], ["shop-node-1"])
    made = caller.post("placements/", {"site": "blog", "tags": ["web"], "values": {"node-1": {"/notes": "x"}}})
    assert made.status_code == 200, made.content
    own = {"node-1": {"/blocks/0/listens/0/port": fleet.ports["blog"]["node-1"]}}
    assert caller.post("placements/", {"site": "blog", "tags": ["web"], "values": own}).status_code == 200
    planned = caller.post("placements/plan/", {"sites": ["blog"]})
    assert planned.status_code == 201 and len(planned.json()["deploy"]) == 1
    assert caller.delete("placements/blog/").status_code == 204
    wrong = browser.post("/placements/shop", {"tags": "", "values": "nonsense"})
    assert wrong.status_code == 422 and set(wrong.context["form"].errors) >= {"values"}
