"""Watches and checks of many hosts, and what they cost the database."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

import pytest
from django.core.cache import cache
from django.utils import timezone

from panel.certificates import host_files
from panel.deployments import tasks
from panel.deployments.drift import services as drift
from panel.deployments.drift import sweep
from panel.deployments.models import Deployment, Drift, SiteState, SiteStatus
from panel.deployments.watching import services as watching
from panel.hosts.models import Engine, Host, HostStatus, Layout, WebServer
from panel.remote import pool
from panel.rollouts import gates
from panel.rollouts.models import Wave
from panel.websites.models import Certificate
from tests.deployments.real_host import Machine
from tests.deployments.sample_plans import live, shop
from tests.support.cast import Cast, cast
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.queries import queries_of_all_threads


@pytest.fixture
def people(transactional_db: None) -> Iterator[Cast]:
    yield cast()
    pool.close()


def dark_hosts(people: Cast, count: int) -> list[Deployment]:
    """Hosts over SSH that responded last and refuse connections now, each with a live site and a certificate."""
    deployments = []
    for number in range(count):
        name = f"dark-{count}-{number}"
        values = {"address": "127.0.0.1", "port": free_port(), "username": "paddock", "site_roots": ["/srv/www"]}
        host = Host.objects.create(name=name, **values)
        row = WebServer.objects.create(host=host, engine=Engine.NGINX, layout=Layout.SITES, paths=people.nginx.paths)
        deployments.append(live(people, shop(people, name, web_server=row)))
        now = timezone.now()
        Certificate.objects.create(
            name=name,
            team=people.team,
            source="host",
            host=host,
            certificate_path="/etc/ssl/a.crt",
            not_before=now,
            not_after=now + dt.timedelta(days=60),
        )
    Host.objects.filter(name__startswith=f"dark-{count}-").update(status=HostStatus.READY)
    return deployments


def watch(_deployments: list[Deployment]) -> None:
    assert watching.round_run(pause=lambda _seconds: None) > 1


def check_drift(_deployments: list[Deployment]) -> None:
    assert sweep.hosts_check() > 1


def read_certificates(_deployments: list[Deployment]) -> None:
    assert host_files.look() == 0


def judge_wave(deployments: list[Deployment]) -> None:
    assert gates.answers(Wave(failing=[]), deployments).passed is None


@pytest.mark.parametrize("loop", [watch, check_drift, read_certificates, judge_wave])
def test_loop_over_hosts_reads_the_ssh_authorities_once(people: Cast, loop: Callable[[list[Deployment]], None]) -> None:
    Host.objects.filter(pk=people.host.pk).update(is_paused=True)
    deployments = dark_hosts(people, 6)
    cache.clear()
    with queries_of_all_threads() as queries:
        loop(deployments)
    assert sum('FROM "hosts_sshauthority"' in sql for sql in queries) == 1


def test_drift_sweep_checks_every_host_that_responds_once(machine: Machine, nginx: NginxInstance) -> None:
    site = machine.site("shop", machine.web_server(nginx, Engine.NGINX))
    machine.deploy(site)
    (path,) = [record["path"] for record in SiteState.objects.get().revision.files if "sites" in record["path"]][:1]
    Host.objects.create(name="paused", connection="local", status=HostStatus.READY, is_paused=True)
    Host.objects.create(name="lost", connection="local", status=HostStatus.UNREACHABLE)
    with open(path, "a") as file:
        file.write("# by hand\n")
    cache.clear()
    assert sweep.hosts_check() == 1
    assert Drift.objects.get().path == path
    assert sweep.hosts_check() == 0, "a second worker leaves the sweep to the first"


def test_blocked_deployment_has_its_host_checked_for_drift(machine: Machine, nginx: NginxInstance) -> None:
    machine.deploy(machine.site("shop", machine.web_server(nginx, Engine.NGINX)))
    for record in SiteState.objects.get().revision.files:
        with open(record["path"], "a") as file:
            file.write("# by hand\n")
    tasks.check_host_drift(machine.host.pk)
    assert SiteState.objects.get().status == SiteStatus.DRIFTED


def test_drift_check_query_count_does_not_grow_with_sites(machine: Machine, nginx: NginxInstance) -> None:
    web_server = machine.web_server(nginx, Engine.NGINX)

    def queries() -> list[str]:
        with queries_of_all_threads() as found:
            assert drift.drift_check(machine.host) == []
        return found

    machine.deploy(machine.site("shop", web_server))
    few = queries()
    machine.deploy(*[machine.site(f"shop-{number}", web_server) for number in range(4)])
    many = queries()
    assert len(many) == len(few)


def test_drift_check_changes_the_status_of_edited_and_restored_sites_only(
    machine: Machine, nginx: NginxInstance
) -> None:
    web_server = machine.web_server(nginx, Engine.NGINX)
    machine.deploy(*[machine.site(f"shop-{number}", web_server) for number in range(3)])
    states = {state.site.name: state for state in SiteState.objects.select_related("site", "revision")}
    paths = {name: state.revision.files[0]["path"] for name, state in states.items()}
    kept = {}
    for name in ("shop-0", "shop-1"):
        with open(paths[name]) as file:
            kept[name] = file.read()
        with open(paths[name], "a") as file:
            file.write("# by hand\n")
    assert len(drift.drift_check(machine.host)) == 2
    with open(paths["shop-1"], "w") as file:
        file.write(kept["shop-1"])
    assert len(drift.drift_check(machine.host)) == 1
    found = dict(SiteState.objects.values_list("site__name", "status"))
    assert found == {"shop-0": SiteStatus.DRIFTED, "shop-1": SiteStatus.LIVE, "shop-2": SiteStatus.LIVE}
