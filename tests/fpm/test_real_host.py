"""PHP-FPM pools on a real host: php-fpm, a web server and accounts of their own, reached over SSH."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from panel.alerts.fpm_pools import fpm_pool_alerts
from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.deployments.models import DeploymentStatus
from panel.deployments.planning import services as planning
from panel.fpm import services
from panel.fpm.models import FpmPool
from panel.fpm.reading import digest
from panel.fpm.selectors import is_changed, state_of
from panel.hosts.models import Engine, Host, HostJob, WebServer
from panel.hosts.services.jobs import host_job_request
from panel.remote import pool as connections
from panel.websites import services as websites
from panel.websites.models import Allowance, Site
from panel.websites.selectors import local_services_of, php_sockets
from tests.api.caller import caller_of
from tests.fpm.world import ADDRESS, World
from tests.support.cast import signed_in
from tests.support.fpm_host import FpmHost, fpm_host
from tests.support.process import tool

TEMPORARY = """<?php
$made = tempnam('', 'x');
file_put_contents($made, 'secret');
echo dirname($made), ' ', ini_get('upload_tmp_dir'), ' ', @file_put_contents('/tmp/shop', 'x') ? 'in /tmp' : 'not /tmp';
"""


@pytest.fixture
def host(transactional_db: None, server_root: Path) -> Iterator[FpmHost]:
    with fpm_host(server_root) as found:
        yield found
        connections.close()


@pytest.fixture
def world(host: FpmHost, server_root: Path) -> World:
    return World(server_root, host, Engine.NGINX)


@pytest.mark.parametrize("engine", [Engine.NGINX, Engine.APACHE, Engine.NATIVE])
def test_pool_created_on_the_page_runs_php_as_the_chosen_account(
    host: FpmHost, server_root: Path, engine: Engine
) -> None:
    world = World(server_root, host, engine)
    client = signed_in(world.people.admin)
    page = client.get("/sites/shop/fpm-pool/")
    text = page.content.decode()
    assert '<option value="shop">' in text and '<option value="boss">' not in text and '"root"' not in text
    sent = {"php_version": "8.2", "account": "shop", "folder": str(world.folder)}
    sent |= {"max_children": "3", "memory_mb": "96", "upload_mb": "8"}
    response = client.post("/sites/shop/fpm-pool/", sent)
    assert response.status_code == 302, response.content.decode()
    job = world.done(HostJob.objects.get(kind="fpm_pool"))
    assert job.error == "" and job.status == JobStatus.SUCCEEDED
    assert local_services_of(world.site) == [ADDRESS]
    assert (ADDRESS, world.panel.host.name) in php_sockets(world.people.owner)
    world.with_php()
    assert world.get("/who.php") == (200, "shop 96M ")
    assert (world.folder / "made").stat().st_uid == 5001
    info = world.socket.stat()
    assert (info.st_mode & 0o777, world.socket.owner()) == (0o660, "www-data")
    shown = client.get("/sites/shop/fpm-pool/").content.decode()
    assert "Listening" in shown and ADDRESS in shown


def test_temporary_files_are_private_and_go_with_the_pool(world: World) -> None:
    (world.folder / "temporary.php").write_text(TEMPORARY)
    world.host.files_of(world.folder, "shop")
    assert world.created().error == ""
    world.with_php()
    folder = world.host.root / "lib" / "paddock" / "paddock-shop"
    assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, 5001)
    where = "/var/lib/php/paddock/paddock-shop"
    assert world.get("/temporary.php") == (200, f"{where} {where} not /tmp")
    (kept,) = folder.iterdir()
    assert kept.read_text() == "secret"
    assert world.host.inside(tool("setpriv"), "--reuid=5002", "--clear-groups", "ls", where, check=False) == ""
    other = services.fpm_pool_update(actor=world.people.admin, pool=world.pool(), account="blog")
    assert world.done(other).error == ""
    assert folder.stat().st_uid == 5002 and list(folder.iterdir()) == []
    plan = planning.site_disable(actor=world.people.owner, site=world.site)
    assert plan is not None and world.panel.run(plan).status == DeploymentStatus.SUCCEEDED
    assert world.done(services.fpm_pool_remove(actor=world.people.admin, pool=world.pool())).error == ""
    assert not folder.exists() and folder.parent.exists()


def test_sites_of_other_teams_cannot_use_the_socket(world: World) -> None:
    assert world.created().error == ""
    Allowance.objects.create(kind="service", value="unix:/run/php/*", host=world.panel.host)
    check = host_job_request(actor=world.people.admin, host=world.panel.host, kind="check")
    assert world.done(check).error == ""
    other = world.panel.site("blog", world.server, actor=world.people.outsider, team=world.people.other_team)
    with pytest.raises(ValidationError, match="service on the host itself"):
        websites.php_pool_create(actor=world.people.outsider, site=other, name="php", address=ADDRESS)
    assert local_services_of(other) == []
    assert [address for address, _host in php_sockets(world.people.outsider)] == ["unix:/run/php/php8.2-fpm.sock"]
    assert caller_of(world.people.outsider).get("fpm-pools/shop/").status_code == 404


def test_changed_pool_is_live_when_its_job_succeeded(world: World) -> None:
    assert world.created(memory_mb=64).error == ""
    world.with_php()
    assert world.get("/who.php")[1].split()[1] == "64M"
    job = services.fpm_pool_update(actor=world.people.admin, pool=world.pool(), memory_mb=72)
    assert is_changed(world.pool())
    assert world.done(job).error == ""
    assert world.get("/who.php")[1].split()[1] == "72M"
    assert not is_changed(world.pool()) and world.looked() == "Listening"


def test_file_edited_on_the_host_is_reported_and_replaced_only_on_purpose(world: World) -> None:
    assert world.created().error == ""
    edited = world.file.read_text() + "; my edit\n"
    world.file.write_text(edited)
    assert world.looked() == "File edited"
    (alert,) = fpm_pool_alerts(world.people.owner, 6)
    assert (alert.title, alert.status, alert.url) == ("paddock-shop", "drifted", "/sites/shop/fpm-pool/")
    assert fpm_pool_alerts(world.people.outsider, 6) == []
    job = world.done(services.fpm_pool_update(actor=world.people.admin, pool=world.pool(), max_children=9))
    assert job.status == JobStatus.FAILED and "was edited on the host" in job.error
    assert world.file.read_text() == edited
    removal = world.done(services.fpm_pool_remove(actor=world.people.admin, pool=world.pool()))
    assert "was edited on the host" in removal.error and world.file.exists()
    job = world.done(services.fpm_pool_apply(actor=world.people.admin, pool=world.pool(), replace=True))
    assert job.error == "" and "max_children = 9" in world.file.read_text()
    assert world.looked() == "Listening"
    world.file.unlink()
    assert world.looked() == "File missing"


def test_pool_that_php_fpm_cannot_start_is_undone(world: World) -> None:
    (world.socket / "in-the-way").mkdir(parents=True)
    job = world.created()
    assert job.status == JobStatus.FAILED and "Paddock restored the former configuration." in job.error
    assert not world.file.exists() and world.host.runs()
    assert state_of(world.pool()).label == "Not on the host"
    page = signed_in(world.people.admin).get("/sites/shop/fpm-pool/").content.decode()
    assert "The last change failed" in page
    (world.socket / "in-the-way").rmdir()
    world.socket.rmdir()
    again = world.done(services.fpm_pool_apply(actor=world.people.admin, pool=world.pool()))
    assert again.error == "" and world.looked() == "Listening"


def test_change_that_php_fpm_rejects_leaves_the_former_pool(world: World) -> None:
    assert world.created().error == ""
    before = world.file.read_bytes()
    (world.host.pools / "other.conf").write_text("[other]\nuser = www-data\nlisten = /run/php/other.sock\npm = what\n")
    job = world.done(services.fpm_pool_update(actor=world.people.admin, pool=world.pool(), max_children=9))
    assert job.status == JobStatus.FAILED and "php-fpm8.2 rejects the configuration" in job.error
    assert world.file.read_bytes() == before and world.looked() == "Listening"


def test_pool_that_is_undone_has_its_folder_for_temporary_files(world: World) -> None:
    assert world.created().error == ""
    world.socket.unlink()
    (world.socket / "in-the-way").mkdir(parents=True)
    job = world.done(services.fpm_pool_update(actor=world.people.admin, pool=world.pool(), account="blog"))
    assert job.status == JobStatus.FAILED and "Paddock restored the former file" in job.error
    assert (world.host.root / "lib" / "paddock" / "paddock-shop").stat().st_uid == 5001


def test_removed_pool_leaves_no_file_and_no_socket(world: World) -> None:
    assert world.created().error == ""
    world.with_php()
    with pytest.raises(ApplicationError, match="Live sites use this pool: shop"):
        services.fpm_pool_remove(actor=world.people.admin, pool=world.pool())
    with pytest.raises(ApplicationError, match="has the PHP-FPM pool paddock-shop"):
        planning.site_delete(actor=world.people.owner, site=world.site)
    plan = planning.site_disable(actor=world.people.owner, site=world.site)
    assert plan is not None and world.panel.run(plan).status == DeploymentStatus.SUCCEEDED
    job = world.done(services.fpm_pool_remove(actor=world.people.admin, pool=world.pool()))
    assert job.error == "" and job.status == JobStatus.SUCCEEDED
    assert not world.file.exists() and not world.socket.exists() and world.host.runs()
    assert not FpmPool.objects.exists()
    assert not [address for address, _host in php_sockets(world.people.admin) if address == ADDRESS]
    deletion = planning.site_delete(actor=world.people.owner, site=Site.objects.get())
    assert deletion is not None and world.panel.run(deletion).status == DeploymentStatus.SUCCEEDED
    assert not Site.objects.exists()


def test_disabled_site_stays_on_its_host_until_its_pool_is_removed(world: World) -> None:
    assert world.created().error == ""
    world.with_php()
    other = WebServer.objects.create(
        host=Host.objects.create(name="node-2", address="192.0.2.2"), engine=Engine.NGINX, paths=world.server.paths
    )
    plan = planning.site_disable(actor=world.people.owner, site=world.site)
    assert plan is not None and world.panel.run(plan).status == DeploymentStatus.SUCCEEDED
    with pytest.raises(ApplicationError, match=r"has the PHP-FPM pool paddock-shop on .*, which does not move"):
        planning.site_move(actor=world.people.owner, site=Site.objects.get(), web_server=other)
    # The way on that the message names.
    assert world.done(services.fpm_pool_remove(actor=world.people.admin, pool=world.pool())).error == ""
    (moved,) = planning.site_move(actor=world.people.owner, site=Site.objects.get(), web_server=other)
    with pytest.raises(Conflict, match="moves it to another host"):
        services.fpm_pool_create(actor=world.people.admin, site=Site.objects.get(), **world.values())
    assert world.panel.run(moved).status == DeploymentStatus.SUCCEEDED
    assert Site.objects.get().web_server == other


def test_pool_is_removed_from_a_host_that_lost_the_folder_of_php(world: World) -> None:
    assert world.created().error == ""
    world.host.inside(tool("mount"), "-t", "tmpfs", "tmpfs", "/var/lib")
    assert world.done(services.fpm_pool_remove(actor=world.people.admin, pool=world.pool())).error == ""
    assert not world.file.exists() and not FpmPool.objects.exists()


def test_last_pool_of_php_fpm_is_not_removed(world: World) -> None:
    assert world.created().error == ""
    world.host.end_pool_of_debian()
    job = world.done(services.fpm_pool_remove(actor=world.people.admin, pool=world.pool()))
    assert job.status == JobStatus.FAILED
    assert "paddock-shop is the last pool of php-fpm8.2, which does not start without a pool" in job.error
    assert world.file.exists() and world.looked() == "Listening"


@pytest.mark.parametrize(
    ("account", "words"),
    [
        ("root", "account belongs to the system"),
        ("www-data", "account belongs to the system"),
        ("boss", "group with permissions of the system"),
        ("nobody-here", "the host has no account nobody-here"),
    ],
)
def test_host_refuses_accounts_that_a_pool_must_not_have(world: World, account: str, words: str) -> None:
    job = world.created(account=account)
    assert job.status == JobStatus.FAILED and words in job.error
    assert not world.file.exists() and world.host.runs()


def test_symbolic_link_in_place_of_the_file_is_refused(world: World) -> None:
    target = world.folder / "mine.conf"
    target.write_text("mine")
    world.file.symlink_to(target)
    job = world.created()
    assert job.status == JobStatus.FAILED and "is a symbolic link" in job.error
    assert target.read_text() == "mine" and world.file.is_symlink()


def test_stopped_php_fpm_is_named_before_anything_is_changed(world: World) -> None:
    world.host.inside("pkill", "-QUIT", "-f", "^php-fpm: master")
    job = world.created()
    assert job.status == JobStatus.FAILED and "php-fpm8.2 is not running" in job.error
    assert not world.file.exists()


def test_job_killed_after_the_file_was_written_can_be_repeated(world: World) -> None:
    assert world.created().error == ""
    written = world.pool().text
    FpmPool.objects.update(text="", seen={}, seen_at=None)
    job = world.done(services.fpm_pool_apply(actor=world.people.admin, pool=world.pool()))
    assert job.error == "" and world.pool().text == written == world.file.read_text()
    assert digest(written) == world.pool().seen["digest"]
