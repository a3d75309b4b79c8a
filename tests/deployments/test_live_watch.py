"""Live sites are asked twice a minute; the words of pages about them were observed, with the time."""

from __future__ import annotations

import datetime as dt
import re
import time
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from panel.alerts.selectors import alerts
from panel.deployments.models import Deployment, DeploymentStatus, Health, HealthChange, Revision, SiteState, SiteStatus
from panel.deployments.watching import services as watching
from panel.hosts.models import Engine, Host, HostStatus, WebServer
from panel.remote import pool
from panel.websites import services as websites
from panel.websites.models import Site
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.support.expiring_certificates import certificate
from tests.support.nginx import NginxInstance
from tests.support.waiting import eventually


@pytest.fixture
def web_server(machine: Machine, nginx: NginxInstance) -> WebServer:
    return machine.web_server(nginx, Engine.NGINX)


@pytest.fixture
def site(machine: Machine, web_server: WebServer) -> Site:
    found = machine.site("shop", web_server)
    machine.deploy(found)
    return found


def at_once(_seconds: float) -> None:
    """No pause before a second attempt."""


def watch(machine: Machine) -> SiteState:
    assert watching.host_watch(machine.host.pk, pause=at_once)
    return SiteState.objects.get(site__name="shop")


def signed_in(client: Client, machine: Machine) -> Client:
    client.force_login(machine.people.owner)
    return client


def page(client: Client, path: str) -> str:
    return client.get(path).content.decode()


def test_live_site_is_seen_by_its_host_every_time(machine: Machine, site: Site) -> None:
    before = timezone.now()
    state = watch(machine)
    assert state.health == Health.ANSWERING
    assert state.health_at is not None and state.health_at >= before
    assert "responds with 200" in state.health_words
    since = state.health_since
    assert watch(machine).health_since == since, "nothing changed"


def test_site_fails_on_every_page_when_its_web_server_stops(
    machine: Machine, site: Site, nginx: NginxInstance, client: Client
) -> None:
    watch(machine)
    signed_in(client, machine)
    assert "Deployed, failing" not in page(client, "/sites/shop/")
    nginx.stop()
    state = watch(machine)
    assert state.health == Health.FAILING and "does not respond" in state.health_words
    for path in ("/sites/", "/sites/shop/"):
        assert "Deployed, failing" in page(client, path), path
    told = client.get("/api/v1/sites/shop/").json()
    assert told["observed_by_host"]["state"] == "failing" and told["observed_by_host"]["since"]
    assert told["status"] == "live", "what is deployed is another fact"
    stopped = [alert.title for alert in alerts(machine.people.owner) if alert.status == "stopped"]
    assert stopped, "one alert for the web server, none for each of its sites"
    nginx.start()
    assert watch(machine).health == Health.ANSWERING
    rows = HealthChange.objects.filter(site=site, observer="host").order_by("pk")
    changes = list(rows.values_list("health", flat=True))
    assert changes[-2:] == ["failing", "answering"]


def test_failing_site_alone_raises_an_alert_until_it_responds(machine: Machine, site: Site) -> None:
    index = Path(machine.root) / "www" / "shop" / "index.html"
    text = index.read_text()
    index.unlink()
    assert watch(machine).health == Health.FAILING
    (alert,) = [alert for alert in alerts(machine.people.owner) if alert.status == "failing"]
    assert alert.title == "shop" and "40" in str(alert.detail) and alert.at is not None
    index.write_text(text)
    watch(machine)
    assert not [alert for alert in alerts(machine.people.owner) if alert.status == "failing"]


def test_revision_of_a_restored_database_is_read_again(machine: Machine, site: Site) -> None:
    """A database that is restored from a backup gives the ids of lost revisions again."""
    watch(machine)
    revision = SiteState.objects.get(site=site).revision
    assert revision is not None
    spec = revision.spec
    for block in spec["blocks"]:
        for listener in block["listens"]:
            listener["port"] += 1
    Revision.objects.filter(pk=revision.pk).update(spec=spec, created_at=revision.created_at + dt.timedelta(hours=1))
    assert watch(machine).health == Health.FAILING, "nothing listens on the port of the other revision"


def test_health_expectation_is_checked_by_the_watch(machine: Machine, site: Site) -> None:
    Site.objects.filter(pk=site.pk).update(health_text="welcome to the shop")
    state = watch(machine)
    assert state.health == Health.FAILING and "without the expected text" in state.health_words


def test_old_observation_is_not_shown_as_present(machine: Machine, site: Site, client: Client) -> None:
    watch(machine)
    SiteState.objects.filter(site=site).update(health_at=timezone.now() - dt.timedelta(minutes=6))
    shown = page(signed_in(client, machine), "/sites/shop/")
    assert "Deployed, not observed" in shown


def test_watch_leaves_only_the_sites_of_running_deployments_alone(
    machine: Machine, web_server: WebServer, site: Site, nginx: NginxInstance
) -> None:
    """A deployment asks its own sites; those beside them may fail while it waits."""
    blog = machine.site("blog", web_server)
    machine.deploy(blog)
    watch(machine)
    Deployment.objects.filter(items__site=site).update(status=DeploymentStatus.RUNNING)
    nginx.stop()
    assert watch(machine).health == Health.ANSWERING, "the deployment asks its sites itself"
    assert SiteState.objects.get(site=blog).health == Health.FAILING


def test_watch_of_unchanged_host_needs_few_statements(machine: Machine, web_server: WebServer, site: Site) -> None:
    watch(machine)
    with CaptureQueriesContext(
        connection,
    ) as few:
        watch(machine)
    sites = [machine.site(f"more-{number}", web_server) for number in range(4)]
    for more in sites:
        machine.deploy(more)
    watch(machine)
    with CaptureQueriesContext(connection) as many:
        watch(machine)
    assert len(many) <= len(few), [query["sql"] for query in many]
    assert len(few) <= 16, [query["sql"] for query in few]


def test_history_of_a_site_is_bounded(machine: Machine, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "KEPT_CHANGES", 3)
    index = Path(machine.root) / "www" / "shop" / "index.html"
    for number in range(6):
        index.unlink(missing_ok=True) if number % 2 else index.write_text("here")
        watch(machine)
    assert HealthChange.objects.filter(site=site).count() == 3


def test_cut_host_is_unknown_and_its_site_still_seen_by_the_panel(
    remote: Machine, nginx: NginxInstance, client: Client
) -> None:
    machine, sshd = remote, remote.sshd
    assert sshd is not None
    web_server = machine.web_server(nginx, Engine.NGINX)
    machine.deploy(machine.site("shop", web_server))
    state = watch(machine)
    assert (state.health, state.reach) == (Health.ANSWERING, Health.ANSWERING)
    sshd.stop()
    pool.close()
    began = time.monotonic()
    state = watch(machine)
    assert time.monotonic() - began < 40
    host = Host.objects.get(pk=machine.host.pk)
    assert host.status == HostStatus.UNREACHABLE
    assert state.health == Health.UNKNOWN and "does not respond" in state.health_words
    assert state.reach == Health.ANSWERING, "the panel still reaches the site itself"
    signed_in(client, machine)
    assert "Deployed, not observed" in page(client, "/sites/")
    live = page(client, f"/hosts/{host.name}/live/")
    assert "Running" not in live and "Stopped" not in live and "Not observed" in live
    nginx.stop()
    state = watch(machine)
    assert state.reach == Health.FAILING
    nginx.start()
    sshd.start()
    assert eventually(lambda: watch(machine).health == Health.ANSWERING)
    assert watch(machine).reach == Health.ANSWERING


def test_site_that_is_closed_to_the_panel_is_watched_from_its_host_only(remote: Machine, nginx: NginxInstance) -> None:
    machine, caller = remote, caller_of(remote.people.owner)
    site = machine.site("shop", machine.web_server(nginx, Engine.NGINX))
    machine.deploy(site)
    assert watch(machine).reach == Health.ANSWERING
    nginx.stop()
    assert watch(machine).reach == Health.FAILING
    version = Site.objects.get().version
    assert caller.patch("sites/shop/", {"watched_from_panel": False}).status_code == 200
    assert Site.objects.get().version == version, "the draft has no changes to deploy"
    state = watch(machine)
    assert (state.health, state.reach) == (Health.FAILING, Health.UNKNOWN), "the former failure does not stay"
    assert state.reach_words == "Paddock does not request the health page from the panel."
    nginx.start()
    state = watch(machine)
    assert (state.health, state.reach) == (Health.ANSWERING, Health.UNKNOWN)
    assert caller.patch("sites/shop/", {"watched_from_panel": True}).status_code == 200
    assert watch(machine).reach == Health.ANSWERING


def test_site_that_failed_last_time_is_asked_without_a_pause(
    machine: Machine, site: Site, nginx: NginxInstance
) -> None:
    """Otherwise failing sites on many hosts would make a round longer than a minute."""
    paused: list[float] = []
    assert watch(machine).health == Health.ANSWERING
    site.health_path = "/missing"
    site.save()
    for _ in range(3):
        assert watching.host_watch(machine.host.pk, pause=paused.append)
        assert SiteState.objects.get(site=site).health == Health.FAILING
    assert len(paused) == 1


def test_round_asks_every_watched_host_once(machine: Machine, site: Site) -> None:
    from django.core.cache import cache

    cache.clear()
    assert watching.round_run(pause=at_once) == 1
    assert watching.round_run(pause=at_once) == 0, "a second worker leaves the round to the first"


@pytest.mark.parametrize(("many", "asks_again_after_s"), [(200, 28.0), (0, 58.0)])
def test_rounds_follow_twice_a_minute_and_once_with_many_hosts(
    machine: Machine, site: Site, monkeypatch: pytest.MonkeyPatch, many: int, asks_again_after_s: float
) -> None:
    from django.core.cache import cache

    cache.clear()
    kept = []
    monkeypatch.setattr(watching, "MANY_HOSTS", many)
    monkeypatch.setattr(watching.cache, "add", lambda key, value, timeout: kept.append(timeout) or True)
    assert watching.round_run(pause=at_once) == 1
    assert kept == [asks_again_after_s]


def test_expired_certificate_is_a_failing_site_until_it_is_renewed(
    machine: Machine, web_server: WebServer, nginx: NginxInstance
) -> None:
    """The web server goes on serving, and every browser refuses."""
    pems = {days: certificate("shop.example", dt.timedelta(days=days)) for days in (9, -1)}
    kept = websites.certificate_upload(
        actor=machine.people.owner,
        team=machine.people.team,
        name="shop",
        certificate_pem=pems[9][0],
        private_key_pem=pems[9][1],
    )
    site = machine.site("shop", web_server)
    listens = [{"port": machine.port, "tls": True}]
    websites.block_update(actor=machine.people.owner, block=site.blocks.get(), certificate=kept, listens=listens)
    machine.deploy(site)
    assert watch(machine).health == Health.ANSWERING
    names = re.findall(r'ssl_certificate(?:_key)? "?([^";]+)', nginx.run("-T").stdout)
    for days, health in ((-1, Health.FAILING), (9, Health.ANSWERING)):
        for name, pem in zip(names, pems[days], strict=True):
            Path(name).write_text(pem)
        nginx.reload()
        state = watch(machine)
        assert (state.health, "certificate that expired on" in state.health_words) == (health, days < 0), state


def test_failing_site_with_edited_files_is_shown_as_failing(
    machine: Machine, site: Site, nginx: NginxInstance, client: Client
) -> None:
    signed_in(client, machine)
    SiteState.objects.filter(site=site).update(status=SiteStatus.DRIFTED)
    watch(machine)
    assert "Drift, failing" not in page(client, "/sites/")
    (machine.root / "www" / "shop" / "index.html").unlink()
    assert watch(machine).health == Health.FAILING
    for path in ("/sites/", "/sites/shop/"):
        assert "Drift, failing" in page(client, path), path


def test_filters_and_dashboard_count_sites_by_what_was_observed(
    machine: Machine, site: Site, nginx: NginxInstance, client: Client
) -> None:
    """A site that fails is not counted or listed as live."""
    signed_in(client, machine)

    def listed(status: str) -> bool:
        return "/sites/shop/" in page(client, f"/sites/?status={status}")

    def figure() -> str:
        found = re.search(r"Live sites.*?<dd>(\d+)<small> / (\d+)", page(client, "/"), re.S)
        assert found is not None
        return f"{found[1]} of {found[2]}"

    SiteState.objects.update(health=Health.UNKNOWN, health_at=None)
    names = ("live", "failing", "unobserved", "drifted", "draft")
    assert [name for name in names if listed(name)] == ["unobserved"] and figure() == "0 of 1"
    watch(machine)
    assert [name for name in names if listed(name)] == ["live"] and figure() == "1 of 1"
    nginx.stop()
    watch(machine)
    assert [name for name in names if listed(name)] == ["failing"] and figure() == "0 of 1"
    SiteState.objects.update(status=SiteStatus.DRIFTED)
    assert [name for name in names if listed(name)] == ["failing"]
    rows = caller_of(machine.people.owner).get("sites/?state__health=failing").json()["results"]
    assert [row["name"] for row in rows] == ["shop"]
