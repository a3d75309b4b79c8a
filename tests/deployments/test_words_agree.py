"""Pages say the same about a site, web server or host at the same moment, and nothing that is known to be old."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from django.test import Client
from django.utils import timezone

from panel.deployments.models import SiteState
from panel.deployments.watching import services as watching
from panel.hosts import watching as hosts_watching
from panel.hosts.models import Engine, Host, WebServer
from panel.remote import pool
from panel.websites.models import Site
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.support.nginx import NginxInstance

UNKNOWN = "Deployed, not observed"


@pytest.fixture
def web_server(remote: Machine, nginx: NginxInstance) -> WebServer:
    return remote.web_server(nginx, Engine.NGINX)


@pytest.fixture
def site(remote: Machine, web_server: WebServer) -> Site:
    found = remote.site("shop", web_server)
    remote.deploy(found)
    watch(remote)
    return found


@pytest.fixture
def browser(client: Client, remote: Machine) -> Client:
    client.force_login(remote.people.admin)
    return client


def watch(machine: Machine) -> None:
    assert watching.host_watch(machine.host.pk, pause=lambda _seconds: None)


def look(machine: Machine) -> None:
    """The first half of a round: the host and its web servers, not yet its sites."""
    hosts_watching.host_look(machine.host.pk, pause=lambda _seconds: None)


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    return " ".join(response.content.decode().split())


def figure(client: Client, label: str) -> int:
    found = re.search(rf"{label}</a></dt> <dd>(\d+)", page(client, "/"))
    assert found is not None, label
    return int(found[1])


def words_of_site(client: Client, machine: Machine) -> dict[str, str]:
    """The status of the site by page, filter and API; `live` and `not live` where a page only counts."""
    host = f"/hosts/{machine.host.name}/"
    status = r'class="status tone-[\w-]+">(?:(?!<span>).)*?<span>([^<]*)</span>'
    places = {
        "list": ("/sites/", "/sites/shop/"),
        "site page": ("/sites/shop/", "<h1>shop</h1>"),
        "host page": (host, 'id="sites"'),
        "move": ("/sites/+move/?site=shop", "<li>shop"),
    }
    found = {}
    for name, (path, after) in places.items():
        text = page(client, path)
        word = re.search(status, text[text.index(after) :])
        assert word is not None, name
        found[name] = word[1]
    found["dashboard"] = "live" if figure(client, "Live sites") else "not live"
    found["filter"] = "live" if "/sites/shop/" in page(client, "/sites/?status=live") else "not live"
    told = caller_of(machine.people.admin).get("sites/shop/").json()["observed_by_host"]["state"]
    found["API"] = {"answering": "live", "failing": "failing", "": "not live"}[told]
    return found


def expected(word: str) -> dict[str, str]:
    pages = dict.fromkeys(("list", "site page", "host page", "move"), word)
    return pages | dict.fromkeys(("dashboard", "filter", "API"), "live" if word == "Live" else "not live")


def test_all_pages_call_an_observed_site_live(remote: Machine, site: Site, browser: Client) -> None:
    assert words_of_site(browser, remote) == expected("Live")
    assert figure(browser, "Hosts ready") == 1


def test_no_page_calls_a_site_live_once_its_host_is_lost(remote: Machine, site: Site, browser: Client) -> None:
    assert remote.sshd is not None
    remote.sshd.stop()
    pool.close()
    look(remote)
    assert words_of_site(browser, remote) == expected(UNKNOWN)
    assert figure(browser, "Hosts ready") == 0
    remote.sshd.start()
    watch(remote)
    assert words_of_site(browser, remote) == expected("Live")


def test_no_page_calls_a_site_live_once_its_web_server_was_found_stopped(
    remote: Machine, site: Site, nginx: NginxInstance, browser: Client
) -> None:
    nginx.stop()
    look(remote)
    assert "Stopped" in page(browser, f"/hosts/{remote.host.name}/")
    assert words_of_site(browser, remote) == expected(UNKNOWN)
    watch(remote)
    assert words_of_site(browser, remote)["list"] == "Deployed, failing"
    nginx.start()
    watch(remote)
    assert words_of_site(browser, remote) == expected("Live")


def test_site_is_live_if_it_responded_after_its_web_server_was_found_stopped(
    remote: Machine, site: Site, web_server: WebServer, browser: Client
) -> None:
    """The panel cannot tell of every web server whether it runs; a later response of the site is better evidence."""
    WebServer.objects.filter(pk=web_server.pk).update(is_running=False, running_changed_at=timezone.now())
    assert words_of_site(browser, remote) == expected(UNKNOWN)
    SiteState.objects.update(health_at=timezone.now())
    assert words_of_site(browser, remote) == expected("Live")


def test_old_observations_of_a_paused_host_are_not_shown_as_present(
    remote: Machine, site: Site, web_server: WebServer, browser: Client
) -> None:
    """Nobody watches a paused host."""
    Host.objects.update(is_paused=True)
    assert words_of_site(browser, remote) == expected("Live")
    earlier = timezone.now() - dt.timedelta(seconds=61)
    SiteState.objects.update(health_at=earlier)
    Host.objects.update(last_seen_at=earlier)
    assert words_of_site(browser, remote) == expected(UNKNOWN)
    check_not_observed(browser, remote, web_server)


def test_old_observations_of_a_host_are_not_shown_as_present(
    remote: Machine, site: Site, web_server: WebServer, browser: Client
) -> None:
    """As if no worker ran for six minutes."""
    earlier = timezone.now() - dt.timedelta(minutes=6)
    SiteState.objects.update(health_at=earlier)
    Host.objects.update(last_seen_at=earlier)
    assert words_of_site(browser, remote) == expected(UNKNOWN)
    check_not_observed(browser, remote, web_server)
    dashboard = page(browser, "/")
    assert "Nothing needs your attention" not in dashboard and "Paddock has not checked this host" in dashboard


def check_not_observed(client: Client, machine: Machine, web_server: WebServer) -> None:
    """No page says how the host or its web server is now."""
    name = machine.host.name
    host_page = page(client, f"/hosts/{name}/")
    assert "Running" not in host_page and ">Ready<" not in host_page and host_page.count("Not observed") == 2
    assert ">Ready<" not in page(client, "/hosts/").partition("<tbody>")[2]
    assert figure(client, "Hosts ready") == 0
    listed = {status: f'href="/hosts/{name}/"' in page(client, f"/hosts/?status={status}") for status in STATUSES}
    assert listed == dict.fromkeys(STATUSES, False) | {"unobserved": True}
    told = caller_of(machine.people.admin).get(f"web-servers/{web_server.pk}/").json()
    assert (told["state"], told["is_running"]) == ("unknown", True)


STATUSES = ("ready", "unreachable", "unobserved")
