"""Host jobs: claimed once, locked, repeated after a worker died; web servers controlled and gallop installed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.utils import timezone

from panel.accounts.models import User
from panel.core import claims
from panel.core.claims import Attempt
from panel.core.errors import Conflict
from panel.core.jobs import JobStatus
from panel.hosts import preparing
from panel.hosts.execution import host_job_execute, orphans_queue
from panel.hosts.locks import host_lock
from panel.hosts.models import Connection, Host, HostJob, HostJobKind, HostStatus, WebServer
from panel.hosts.services import (
    host_job_cancel,
    host_job_request,
    register_local_host,
    web_server_adopt,
    web_server_create,
)
from panel.hosts.services.web_servers import web_servers_found
from panel.hosts.watching import host_look
from panel.remote import pool
from tests.agents.sites import Sites
from tests.support.nginx import NginxInstance
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def here(settings: Any, tmp_path: Path) -> Iterator[Host]:
    """This machine as the local host."""
    settings.LOCAL_HOST_ROOT = tmp_path / "host"
    settings.HOME = tmp_path
    yield register_local_host()
    pool.close()


@pytest.fixture
def sites(server_root: Path) -> Iterator[Sites]:
    made = Sites(NginxInstance(server_root))
    with made.server:
        assert eventually(lambda: made.body("shop") == "old")
        yield made


def ask(host: Host, admin: User, kind: str, **params: Any) -> HostJob:
    job = host_job_request(actor=admin, host=host, kind=kind, params=params)
    assert host_job_execute(job.uuid) == Attempt.DONE
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(
    ("kind", "params", "words"),
    [
        ("service", {"web_server": 1, "action": "reload"}, "Reload a web server"),
        ("service", {"web_server": 1, "action": "stop"}, "Stop a web server"),
        ("check", {}, "Check host"),
    ],
)
def test_job_is_named_after_its_action(kind: str, params: dict[str, object], words: str) -> None:
    assert HostJob(kind=kind, params=params).words == words


def test_local_host_is_registered_once(here: Host) -> None:
    assert register_local_host().pk == here.pk
    assert (here.connection, here.status) == (Connection.LOCAL, HostStatus.READY)
    assert Path(here.site_roots[0]).is_dir()


def test_private_web_server_is_shown_but_unmanaged_until_registered(here: Host, admin: User, sites: Sites) -> None:
    job = ask(here, admin, HostJobKind.CHECK)
    assert job.status == JobStatus.SUCCEEDED, job.error
    main_config = str(sites.server.main_config)
    assert not here.web_servers.filter(paths__main_config=main_config).exists()
    assert here.web_servers.filter(engine="nginx", paths__main_config="/etc/nginx/nginx.conf").exists()
    here.refresh_from_db()
    found = web_server_adopt(actor=admin, host=here, engine="nginx", main_config=main_config)
    assert found.paths == sites.server.paths
    assert found.is_running
    assert "http_ssl_module" in found.modules
    assert found.version
    here.refresh_from_db()
    assert main_config not in [item["paths"]["main_config"] for item in here.facts["other_servers"]]
    with pytest.raises(Conflict, match="found no web server"):
        web_server_adopt(actor=admin, host=here, engine="nginx", main_config=main_config)
    sites.server.stop()
    ask(here, admin, HostJobKind.CHECK)
    found.refresh_from_db()
    assert not found.is_running


def test_web_server_in_folder_of_another_account_is_hidden(here: Host, admin: User, sites: Sites) -> None:
    os.chown(sites.server.root, 65534, 65534)
    ask(here, admin, HostJobKind.CHECK)
    here.refresh_from_db()
    seen = [item["paths"]["main_config"] for item in here.facts["other_servers"]]
    assert str(sites.server.main_config) not in seen


def found_server(label: str, main_config: str) -> dict[str, Any]:
    """One server as the agent reports it (agents/host/detect.py)."""
    names = ("binary", "prefix", "config_root", "log_dir", "pid_file")
    paths = {**{name: f"/srv/{label}/{name}" for name in names}, "main_config": main_config}
    plain: dict[str, Any] = {"engine": "nginx", "label": label, "version": "1.22.1", "modules": [], "paths": paths}
    return {**plain, "layout": "sites", "control": "direct", "unit": "", "running": True, "private": False}


def test_concurrent_checks_add_web_server_once(here: Host) -> None:
    """The check after a trusted key runs beside one that was requested."""
    servers = [found_server(f"one-{number}", f"/srv/one-{number}/nginx.conf") for number in range(5)]
    begin = threading.Barrier(4)

    def check(_: int) -> list[dict[str, Any]]:
        try:
            begin.wait(60)
            return web_servers_found(here, servers)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(check, range(4))) == [[]] * 4
    assert here.web_servers.count() == 5


def test_unreadable_web_server_does_not_hide_others(here: Host) -> None:
    odd, plain = found_server("odd", "relative/nginx.conf"), found_server("plain", "/srv/plain/nginx.conf")
    (left,) = web_servers_found(here, [odd, plain])
    assert "absolute path" in left["fault"]
    assert [row.label for row in here.web_servers.all()] == ["plain"]


def test_web_server_is_stopped_started_and_reloaded(here: Host, admin: User, sites: Sites) -> None:
    web_server = web_server_create(
        actor=admin, host=here, engine="nginx", paths=sites.server.paths, label="mine", layout="conf_d"
    )
    for action, running in (("stop", False), ("start", True), ("reload", True)):
        job = ask(here, admin, HostJobKind.SERVICE, web_server=web_server.pk, action=action)
        assert job.status == JobStatus.SUCCEEDED, job.error
        web_server.refresh_from_db()
        assert web_server.is_running is running
    assert sites.body("shop") == "old"
    # Whatever was noted before, looking at the host tells what is.
    WebServer.objects.filter(pk=web_server.pk).update(is_running=False)
    assert host_look(here.pk)
    web_server.refresh_from_db()
    assert web_server.is_running
    ask(here, admin, HostJobKind.SERVICE, web_server=web_server.pk, action="stop")
    WebServer.objects.filter(pk=web_server.pk).update(is_running=True)
    assert host_look(here.pk)
    web_server.refresh_from_db()
    assert not web_server.is_running


def test_rejected_configuration_is_reported_with_server_message(here: Host, admin: User, sites: Sites) -> None:
    web_server = web_server_create(
        actor=admin, host=here, engine="nginx", paths=sites.server.paths, label="mine", layout="conf_d"
    )
    sites.put("broken.conf", "no_such_directive;\n")
    job = ask(here, admin, HostJobKind.SERVICE, web_server=web_server.pk, action="reload")
    assert job.status == JobStatus.FAILED
    assert "no_such_directive" in job.error
    assert sites.body("shop") == "old"


@pytest.mark.parametrize(
    ("kind", "params", "field"),
    [
        ("service", {}, "params"),
        ("service", {"web_server": 1, "action": "start", "x": 1}, "params"),
        ("service", {"web_server": 0, "action": "start"}, "web_server"),
        ("service", {"web_server": "1; id", "action": "start"}, "web_server"),
        ("service", {"web_server": 0, "action": "start; id"}, "action"),
        ("check", {"a": 1}, "params"),
        ("format_disk", {}, "kind"),
    ],
)
def test_malformed_job_is_rejected_at_its_field(
    here: Host, admin: User, kind: str, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        host_job_request(actor=admin, host=here, kind=kind, params=params)
    assert list(refused.value.message_dict) == [field]
    assert not HostJob.objects.exists()


def test_job_is_run_by_one_worker_only(here: Host, admin: User) -> None:
    job = host_job_request(actor=admin, host=here, kind=HostJobKind.CHECK)
    assert host_job_request(actor=admin, host=here, kind=HostJobKind.CHECK).pk == job.pk
    assert host_job_execute(job.uuid) == Attempt.DONE
    assert host_job_execute(job.uuid) == Attempt.NOTHING


def test_job_stays_queued_while_host_is_busy(here: Host, admin: User, sites: Sites) -> None:
    web_server = web_server_create(
        actor=admin, host=here, engine="nginx", paths=sites.server.paths, label="mine", layout="conf_d"
    )
    params = {"web_server": web_server.pk, "action": "stop"}
    job = host_job_request(actor=admin, host=here, kind=HostJobKind.SERVICE, params=params)
    with host_lock(here, "a deployment"):
        assert host_job_execute(job.uuid) == Attempt.BUSY
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    assert sites.body("shop") == "old"
    assert job.uuid in orphans_queue()


def test_job_of_dead_worker_is_queued_again(here: Host, admin: User) -> None:
    job = host_job_request(actor=admin, host=here, kind=HostJobKind.CHECK)
    stale = timezone.now() - claims.ORPHANED_AFTER - timedelta(seconds=1)
    HostJob.objects.update(status=JobStatus.RUNNING, claimed_by="gone:1:x", heartbeat_at=stale)
    assert orphans_queue() == [job.uuid]
    assert host_job_execute(job.uuid) == Attempt.DONE


def test_only_queued_jobs_can_be_cancelled(here: Host, admin: User) -> None:
    job = host_job_request(actor=admin, host=here, kind=HostJobKind.CHECK)
    assert host_job_cancel(actor=admin, job=job).status == JobStatus.CANCELLED
    assert host_job_execute(job.uuid) == Attempt.NOTHING
    HostJob.objects.update(status=JobStatus.RUNNING)
    with pytest.raises(Conflict, match="cannot be cancelled"):
        host_job_cancel(actor=admin, job=job)


def test_web_server_registered_by_hand_is_checked(here: Host, admin: User, sites: Sites) -> None:
    for paths in ({}, {**sites.server.paths, "binary": "nginx"}, {**sites.server.paths, "config_root": "/etc"}):
        with pytest.raises(ValidationError) as refused:
            web_server_create(actor=admin, host=here, engine="nginx", paths=paths, label="mine", layout="conf_d")
        assert list(refused.value.message_dict) == ["paths"]
    with pytest.raises(ValidationError) as refused:
        web_server_create(actor=admin, host=here, engine="nginx", paths=sites.server.paths, layout="vhosts")
    assert list(refused.value.message_dict) == ["layout"]
    assert not WebServer.objects.exists()


def test_package_plan_lists_installed_and_upgraded_services() -> None:
    packages = [
        {"name": name, "version": "2", "was": was}
        for name, was in (
            ("wordpress", ""),
            ("apache2", ""),
            ("apache2-bin", ""),
            ("php8.2-fpm", "1"),
            ("mariadb-server-core", ""),
        )
    ]
    assert preparing.services(packages) == (["apache2"], ["php8.2-fpm"])
    assert preparing.services(packages[:1]) == ([], [])
