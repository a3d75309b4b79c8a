"""A site with a PHP-FPM pool moves to another host: two real hosts, each with php-fpm and nginx of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.urls import reverse
from django.utils import timezone

from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.deployments import pool_moves
from panel.deployments.confirmation.services import deployment_cancel, deployment_confirm
from panel.deployments.execution import services as execution
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.planning import services as planning
from panel.fpm import services
from panel.fpm.models import FpmPool
from panel.hosts.models import Engine, Host, HostJob, HostStatus, WebServer
from panel.remote import pool as connections
from panel.websites.models import Site
from panel.websites.selectors import local_services_of
from tests.api.caller import caller_of
from tests.fpm.world import ADDRESS, PORT, WHO, World, installed
from tests.support.cast import signed_in
from tests.support.fpm_host import FpmHost, fpm_hosts
from tests.support.process import tool


class Move:
    """`shop` is live with its pool on the host of `world`; `host`, web-2 in the panel, has its files and no pool."""

    def __init__(self, root: Path, hosts: list[FpmHost]) -> None:
        first, self.host = hosts
        self.world = World(root, first, Engine.NGINX)
        self.people = self.world.people
        www = root / "second-www"
        (www / "shop").mkdir(parents=True)
        (www / "shop" / "index.html").write_text("this is shop")
        (www / "shop" / "who.php").write_text(WHO)
        self.host.files_of(www / "shop", "shop")
        self.host.inside(tool("mount"), "--bind", str(www), str(root / "www"))
        sshd = self.host.machine.sshd
        self.row = Host.objects.create(
            name="web-2",
            address=sshd.address,
            port=sshd.port,
            username=sshd.username,
            private_key=sshd.private_key,
            host_key=sshd.host_key,
            status=HostStatus.READY,
            site_roots=[str(root / "www")],
        )
        server = installed(root / "second", Engine.NGINX)
        self.conf = root / "second" / "conf.d"
        self.server = WebServer.objects.create(host=self.row, engine=Engine.NGINX, paths=server.paths, layout="sites")
        assert self.world.created(memory_mb=96).error == ""
        self.world.with_php()

    def planned(self, **values: str) -> tuple[Deployment, Deployment]:
        site = Site.objects.get(name="shop")
        up, down = planning.site_move(actor=self.people.admin, site=site, web_server=self.server, **values)
        return up, down

    def run(self, up: Deployment) -> Deployment:
        deployment_confirm(actor=self.people.admin, deployment=up)
        execution.deployment_execute(up.uuid)
        up.refresh_from_db()
        return up

    def moved(self, **values: str) -> Deployment:
        up, down = self.planned(**values)
        assert self.run(up).status == DeploymentStatus.SUCCEEDED, up.error
        execution.deployment_execute(down.uuid)
        down.refresh_from_db()
        assert down.status == DeploymentStatus.SUCCEEDED, down.error
        return up

    @property
    def file(self) -> Path:
        return self.host.pools / "paddock-shop.conf"

    def refused(self) -> str:
        with pytest.raises(ApplicationError) as error:
            self.planned()
        assert FpmPool.objects.count() == 1 and not self.file.exists()
        return error.value.message

    def is_as_before(self) -> bool:
        is_live = self.world.get("/who.php") == (200, "shop 96M ")
        return is_live and not self.file.exists() and FpmPool.objects.get().host == self.world.panel.host


@pytest.fixture
def move(transactional_db: None, server_root: Path, request: pytest.FixtureRequest) -> Iterator[Move]:
    with fpm_hosts(server_root, "8.2", getattr(request, "param", "8.2")) as hosts:
        yield Move(server_root, hosts)
        connections.close()


def test_pool_is_created_on_the_new_host_before_the_site_and_offered_for_removal_on_the_old(move: Move) -> None:
    admin = signed_in(move.people.admin)
    up, down = move.planned()
    plan = admin.get(reverse("deployments:detail", args=[up.uuid])).content.decode()
    assert "PHP pool paddock-shop is created on web-2" in " ".join(plan.split())
    assert "The socket" not in plan, "a socket that the plan creates is not missing"
    assert not move.file.exists(), "a plan changes nothing"
    assert move.run(up).status == DeploymentStatus.SUCCEEDED, up.error
    steps = list(up.steps.values_list("name", flat=True))
    assert steps[0] == "pool" and "switch" in steps[1:]
    assert move.host.get(PORT, "shop.example", "/who.php") == (200, "shop 96M ")
    page = admin.get(reverse("deployments:detail", args=[up.uuid])).content.decode()
    assert "The move left the PHP pool paddock-shop on web-1" in " ".join(page.split())
    execution.deployment_execute(down.uuid)
    site = Site.objects.get(name="shop")
    assert site.web_server == move.server and local_services_of(site) == [ADDRESS]
    assert move.world.file.exists(), "the old host keeps its pool"
    page = admin.get("/sites/shop/fpm-pool/").content.decode()
    assert "Listening" in page and "Pools on other hosts" in page and "remove/?host=web-1" in page
    api = caller_of(move.people.admin)
    assert api.get("fpm-pools/shop/").json()["host"] == "web-2"
    assert api.get("fpm-pools/shop/?host=web-1").json()["host"] == "web-1"
    assert admin.post("/sites/shop/fpm-pool/remove/?host=web-1").status_code == 302
    job = move.world.done(HostJob.objects.filter(kind="fpm_pool").latest("pk"))
    assert (job.status, job.error) == (JobStatus.SUCCEEDED, "")
    assert not move.world.file.exists() and FpmPool.objects.get().host == move.row
    assert move.host.get(PORT, "shop.example", "/who.php") == (200, "shop 96M ")


def test_pool_is_removed_again_when_the_move_fails(move: Move) -> None:
    (move.conf / "broken.conf").write_text("nonsense;\n")
    up, down = move.planned()
    move.run(up)
    assert up.status in (DeploymentStatus.ROLLED_BACK, DeploymentStatus.FAILED)
    steps = list(up.steps.values_list("name", flat=True))
    assert (steps[0], steps[-1]) == ("pool", "undo_pool")
    down.refresh_from_db()
    assert down.status == DeploymentStatus.CANCELLED
    assert move.is_as_before()
    (move.conf / "broken.conf").unlink()
    move.moved()
    assert move.host.get(PORT, "shop.example", "/who.php") == (200, "shop 96M ")


def test_move_is_refused_with_the_way_on_when_the_new_host_lacks_the_account(move: Move) -> None:
    accounts = move.host.root / "passwd"
    accounts.write_text("".join(line for line in accounts.open() if not line.startswith("shop:")))
    words = move.refused()
    assert "the host has no account shop" in words and "adduser --disabled-password shop" in words


@pytest.mark.parametrize("move", ["8.3"], indirect=True)
def test_move_offers_the_php_versions_of_the_new_host_when_it_lacks_that_of_the_pool(move: Move) -> None:
    assert "the host has no PHP-FPM 8.2, but 8.3. Enter one of these PHP versions" in move.refused()
    page = signed_in(move.people.admin).get("/sites/shop/server/").content.decode()
    assert 'name="php_version"' in page
    response = caller_of(move.people.admin).post(
        "sites/shop/move/", {"web_server": move.server.pk, "php_version": "8.3"}
    )
    assert response.status_code == 201, response.content
    up = Deployment.objects.get(uuid=response.json()["deployments"][0]["uuid"])
    assert move.run(up).status == DeploymentStatus.SUCCEEDED, up.error
    assert move.host.get(PORT, "shop.example", "/who.php") == (200, "shop 96M ")
    assert move.file.exists() and FpmPool.objects.get(host=move.row).php_version == "8.3"


def test_only_administrators_plan_and_confirm_moves_with_a_pool(move: Move) -> None:
    site = Site.objects.get(name="shop")
    with pytest.raises(ApplicationError, match="Ask an administrator to move the site"):
        planning.site_move(actor=move.people.owner, site=site, web_server=move.server)
    up, _down = move.planned()
    with pytest.raises(PermissionDenied):
        deployment_confirm(actor=move.people.owner, deployment=up)
    assert FpmPool.objects.count() == 1 and move.is_as_before()


def test_account_of_another_teams_pool_on_the_new_host_is_refused(move: Move) -> None:
    theirs = move.world.panel.site("theirs", move.server, actor=move.people.outsider, team=move.people.other_team)
    other = FpmPool.objects.create(
        site=theirs, host=move.row, name="paddock-theirs", php_version="8.2", account="shop", folder="/srv/www/theirs"
    )
    with pytest.raises(ApplicationError, match="A pool of another team runs as this account"):
        move.planned()
    FpmPool.objects.filter(pk=other.pk).update(account="blog")
    up, _down = move.planned()
    FpmPool.objects.filter(pk=other.pk).update(account="shop")
    with pytest.raises(ValidationError, match="A pool of another team runs as this account"):
        deployment_confirm(actor=move.people.admin, deployment=up)
    assert not FpmPool.objects.filter(site=move.world.site, host=move.row).exists()


def test_plan_is_outdated_when_the_pool_was_changed(move: Move) -> None:
    up, _down = move.planned()
    pool = move.world.pool()
    assert move.world.done(services.fpm_pool_update(actor=move.people.admin, pool=pool, max_children=9)).error == ""
    with pytest.raises(Conflict, match="the PHP pool paddock-shop was changed after the plan was created"):
        deployment_confirm(actor=move.people.admin, deployment=up)
    move.moved()
    assert "pm.max_children = 9" in move.file.read_text()


def test_file_that_paddock_did_not_write_stays_on_the_new_host(move: Move) -> None:
    up, _down = move.planned()
    move.file.write_text("; mine\n")
    assert move.run(up).status == DeploymentStatus.FAILED
    assert "was edited on the host" in up.error
    assert move.file.read_text() == "; mine\n" and FpmPool.objects.get().host == move.world.panel.host
    with pytest.raises(ApplicationError, match="that Paddock did not write"):
        move.planned()
    move.file.unlink()
    assert move.is_as_before()


def test_site_that_moves_back_uses_the_pool_that_it_left(move: Move) -> None:
    move.moved()
    site = Site.objects.get(name="shop")
    up, _down = planning.site_move(actor=move.people.admin, site=site, web_server=move.world.server)
    page = signed_in(move.people.admin).get(reverse("deployments:detail", args=[up.uuid])).content.decode()
    assert "PHP pool paddock-shop is already on web-1" in " ".join(page.split())
    before = move.world.file.stat().st_mtime_ns
    assert move.run(up).status == DeploymentStatus.SUCCEEDED, up.error
    assert move.world.get("/who.php") == (200, "shop 96M ")
    assert move.world.file.stat().st_mtime_ns == before
    assert "pool" not in up.steps.values_list("name", flat=True)


def test_pools_of_a_move_are_not_removed_while_its_deployments_wait(move: Move) -> None:
    up, down = move.planned()
    deployment_confirm(actor=move.people.admin, deployment=up)
    new = FpmPool.objects.get(host=move.row)
    for work in (services.fpm_pool_remove, services.fpm_pool_forget, services.fpm_pool_apply):
        with pytest.raises(Conflict, match="Wait until the deployment ends"):
            work(actor=move.people.admin, pool=new)  # type: ignore[operator] # three services with the same arguments
    execution.deployment_execute(up.uuid)
    with pytest.raises(ApplicationError, match="Live sites use this pool: shop"):
        services.fpm_pool_remove(actor=move.people.admin, pool=move.world.pool())
    execution.deployment_execute(down.uuid)
    job = services.fpm_pool_remove(actor=move.people.admin, pool=move.world.pool())
    assert move.world.done(job).error == "" and not move.world.file.exists()


def test_cancelled_move_leaves_no_pool(move: Move) -> None:
    up, _down = move.planned()
    deployment_confirm(actor=move.people.admin, deployment=up)
    assert FpmPool.objects.filter(host=move.row).exists(), "its name and account are reserved"
    deployment_cancel(actor=move.people.admin, deployment=up)
    assert move.is_as_before()


def begun(move: Move) -> tuple[Deployment, Deployment]:
    """Confirm a move and create its pool, as a worker does that is killed next."""
    up, down = move.planned()
    deployment_confirm(actor=move.people.admin, deployment=up)
    pool_moves.pools_begin([up])
    (pool,) = up.plan.pools
    pool_moves.handlers[0].create(move.row, pool)
    Deployment.objects.filter(pk=up.pk).update(started_at=timezone.now())
    return up, down


def test_pool_that_cannot_be_removed_after_a_failed_move_is_named_and_offered(move: Move) -> None:
    up, _down = begun(move)
    move.file.write_text(move.file.read_text() + "; edited\n")
    execution.deployment_execute(up.uuid)
    up.refresh_from_db()
    assert up.status == DeploymentStatus.FAILED
    assert "The PHP pool paddock-shop could not be removed from web-2" in up.error
    assert move.file.exists() and move.world.get("/who.php") == (200, "shop 96M ")
    page = signed_in(move.people.admin).get("/sites/shop/fpm-pool/").content.decode()
    assert "remove/?host=web-2" in page and "forget/?host=web-2" in page
    assert signed_in(move.people.admin).get("/sites/shop/fpm-pool/remove/?host=web-2").status_code == 200


def test_move_that_lost_its_worker_after_the_pool_was_created_is_completed(move: Move) -> None:
    up, down = begun(move)
    execution.deployment_execute(up.uuid)
    up.refresh_from_db()
    assert up.status == DeploymentStatus.SUCCEEDED, up.error
    execution.deployment_execute(down.uuid)
    assert move.host.get(PORT, "shop.example", "/who.php") == (200, "shop 96M ")
    assert up.steps.filter(name="pool").count() == 1
