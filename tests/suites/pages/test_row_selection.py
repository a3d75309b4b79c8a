"""All rows that match a list's filter can be selected across pages, for any bulk action."""

from __future__ import annotations

import html
import re

import pytest
from django.http import HttpResponse
from django.test import Client

from panel.core import row_selection
from panel.hosts.models import Host, HostJob, HostStatus
from panel.websites.models import Site
from tests.support.cast import Cast, cast, signed_in

COUNT = 240


@pytest.fixture
def people(db: None) -> Cast:
    found = cast()
    Site.objects.bulk_create(
        Site(name=f"customer-{number:03}", team=found.team, tags=["eu"] if number % 2 else [])
        for number in range(COUNT)
    )
    Site.objects.create(name="foreign", team=found.other_team, tags=["eu"])
    return found


def boxes(answer: HttpResponse, field: str) -> list[str]:
    return re.findall(rf'name="{field}" value="([^"]+)"', html.unescape(answer.content.decode()))


def all_that_fit(client: Client, url: str, field: str) -> list[str]:
    """The boxes of a list's page, and those that its button brings."""
    page = client.get(url)
    button = re.search(r'hx-get="([^"]*others[^"]*)"', page.content.decode())
    assert button, "there is a button for the others"
    others = client.get(url.partition("?")[0] + html.unescape(button[1]))
    assert others.content.decode().count("checked") == len(boxes(others, field))
    return boxes(page, field) + boxes(others, field)


def test_select_all_selects_exactly_filtered_sites(people: Cast) -> None:
    client = signed_in(people.owner)
    assert sorted(all_that_fit(client, "/sites/", "site")) == [f"customer-{number:03}" for number in range(COUNT)]
    fit = all_that_fit(client, "/sites/?tag=eu&page=2&ordering=-name", "site")
    assert len(fit) == len(set(fit)) == COUNT // 2 and set(fit) == {f"customer-{n:03}" for n in range(1, COUNT, 2)}
    assert "others=" not in client.get("/sites/?q=customer-00").content.decode(), "all of them stand on the page"


def test_viewer_gets_no_row_checkboxes(people: Cast) -> None:
    assert not boxes(signed_in(people.viewer).get("/sites/?others=1"), "site")


def test_select_all_is_hidden_above_limit(people: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_selection, "MOST", COUNT - 1)
    client = signed_in(people.owner)
    assert "others=" not in client.get("/sites/").content.decode()
    assert "<html" in client.get("/sites/?others=1").content.decode()


def test_large_selection_reaches_confirmation_page(people: Cast) -> None:
    """The names are too long for a URL. An earlier selection is dropped, never reused."""
    client = signed_in(people.owner)
    names = all_that_fit(client, "/sites/", "site")
    forgotten = client.post("/sites/+bulk/", {"action": "tag", "site": names[:-1]})["Location"]
    url = client.post("/sites/+bulk/", {"action": "tag", "site": names})["Location"]
    assert len(url) < 100
    page = client.get(url)
    assert f"Tags of {COUNT} sites" in page.content.decode()
    assert client.post(url, {"add": "customer", "remove": ""}).status_code == 302
    assert Site.objects.filter(tags__has="customer").count() == COUNT
    later = client.get(forgotten, follow=True)
    assert "Select sites first" in later.content.decode(), "it says so, and takes no others"


def test_bulk_action_reaches_all_filtered_hosts(people: Cast) -> None:
    Host.objects.bulk_create(
        Host(name=f"web-{number:03}", status=HostStatus.READY, site_roots=["/srv/www"], tags=["rack-7"])
        for number in range(60)
    )
    client = signed_in(people.admin)
    names = all_that_fit(client, "/hosts/?tag=rack-7", "host")
    assert len(names) == 60 and people.host.name not in names
    assert client.post("/hosts/+bulk/", {"action": "check", "host": names}).status_code == 302
    assert HostJob.objects.filter(kind="check").count() == 60
