"""gallop's counts of a site on pages and in the API, from requests to a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from panel.hosts.models import WebServer
from panel.websites.models import Site
from tests.api.caller import caller_of
from tests.deployments.gallop_host import stop, two_sites, with_gallop
from tests.deployments.real_host import Machine
from tests.support.http_client import ask
from tests.support.waiting import eventually
from tests.websites.conftest import signed_in


@pytest.fixture
def machine(transactional_db: None, server_root: Path, settings: Settings) -> Iterator[Machine]:
    with with_gallop(server_root, settings) as found:
        yield found


def counted(client: Client, words: str, url: str = "/sites/shop/traffic/") -> bool:
    return eventually(lambda: words in client.get(url).content.decode())


def test_site_traffic_shows_own_requests_only(machine: Machine) -> None:
    two_sites(machine)
    for _ in range(6):
        ask(machine.port, "/missing", host="shop.example")
    owner, viewer = caller_of(machine.people.owner), signed_in(machine.people.viewer)
    assert eventually(lambda: owner.get("sites/shop/traffic/").json()["zones"][0]["responses"]["4xx"] == 6)
    answer = owner.get("sites/shop/traffic/").json()
    assert [zone["name"] for zone in answer["zones"]] == ["shop"]
    zone = answer["zones"][0]
    assert zone["requests"] == sum(zone["responses"].values()) >= 7
    assert zone["latency_ms"]["p50"] <= zone["latency_ms"]["p99"]
    assert sum(count for _, count in zone["latency_histogram"]) == zone["requests"]
    assert "connections" not in answer and "blog" not in str(answer)
    page = viewer.get("/sites/shop/traffic/").content.decode()
    assert "4xx" in page and 'class="columns"' in page and "blog" not in page
    part = viewer.get("/sites/shop/traffic/", HTTP_HX_REQUEST="true", HTTP_HX_TARGET="traffic").content.decode()
    assert part.lstrip().startswith('<div id="traffic"') and "<html" not in part
    outsider = machine.people.outsider
    assert signed_in(outsider).get("/sites/shop/traffic/").status_code == 404
    assert caller_of(outsider).get("sites/shop/traffic/").status_code == 404


def test_host_traffic_shows_all_sites_to_administrators_only(machine: Machine) -> None:
    two_sites(machine)
    admin = signed_in(machine.people.admin)
    url = f"/hosts/{machine.host.name}/traffic/"
    assert counted(admin, "/sites/blog/traffic/", url)
    page = admin.get(url).content.decode()
    assert "gallop/" in page and "/sites/shop/traffic/" in page and "QUIC" in page
    (server,) = caller_of(machine.people.admin).get(f"hosts/{machine.host.name}/traffic/").json()["servers"]
    assert server["engine"] == "native" and server["traffic"]["connections"]["active"] >= 1
    assert {zone["name"] for zone in server["traffic"]["zones"]} == {"shop", "blog"}
    assert signed_in(machine.people.owner).get(url).status_code == 403
    assert caller_of(machine.people.owner).get(f"hosts/{machine.host.name}/traffic/").status_code == 403
    assert caller_of(machine.people.admin, ["read"]).get(f"hosts/{machine.host.name}/traffic/").status_code == 403


def test_traffic_rates_use_two_readings_and_counts_survive_reload(machine: Machine) -> None:
    shop, _blog = two_sites(machine)
    caller = caller_of(machine.people.owner)
    before = caller.get("sites/shop/traffic/").json()
    for _ in range(40):
        ask(machine.port, "/", host="shop.example")

    def grew() -> bool:
        now = caller.get("sites/shop/traffic/").json()
        return now["zones"][0]["requests"] >= before["zones"][0]["requests"] + 40

    assert eventually(grew)
    machine.deploy(shop)  # nothing changed, or a reload: either way what was counted stays
    assert caller.get("sites/shop/traffic/").json()["zones"][0]["requests"] >= 40


def test_traffic_page_reports_stopped_or_silent_web_server(machine: Machine) -> None:
    shop, _blog = two_sites(machine)
    web_server = WebServer.objects.get(engine="native")
    stop(int(Path(web_server.paths["pid_file"]).read_text()))
    page = signed_in(machine.people.owner).get("/sites/shop/traffic/").content.decode()
    assert "check that gallop is running" in page
    WebServer.objects.filter(pk=web_server.pk).update(engine="nginx")
    page = signed_in(machine.people.owner).get("/sites/shop/traffic/").content.decode()
    assert "reports no traffic figures" in page and 'hx-trigger="every' not in page
    assert caller_of(machine.people.owner).get("sites/shop/traffic/").status_code == 422
    Site.objects.filter(pk=shop.pk).update(web_server=None)
    assert "has no web server yet" in signed_in(machine.people.owner).get("/sites/shop/traffic/").content.decode()
