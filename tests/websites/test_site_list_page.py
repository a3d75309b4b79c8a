"""The list of sites: visibility, filters, bulk actions and number of queries."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from panel.websites import services
from panel.websites.models import Site
from tests.support.cast import Cast, signed_in
from tests.websites.conftest import shop_definition


def more_sites(people: Cast, count: int) -> None:
    for number in range(count):
        block = {"listens": [{"port": 80}], "names": [f"n{number}.example"], "root": "/srv/www/n"}
        data = shop_definition(people, name=f"n-{number}", blocks=[block], upstreams=[], php_pools=[])
        services.site_define(actor=people.owner, data=data)


def test_empty_site_list_offers_creating_a_site(owner: Client) -> None:
    page = owner.get("/sites/").content.decode()
    assert "Create your first site" in page
    assert 'href="/sites/+new/"' in page


def test_site_list_hides_forbidden_actions_from_viewer(viewer: Client, shop: Site) -> None:
    page = viewer.get("/sites/").content.decode()
    assert "shop.example" in page
    assert "/sites/+new/" not in page
    assert 'name="site"' not in page


def test_site_list_hides_sites_of_other_teams(outsider: Client, shop: Site) -> None:
    assert "shop.example" not in outsider.get("/sites/").content.decode()
    assert outsider.get("/sites/shop/").status_code == 404


def test_site_list_requires_sign_in(shop: Site) -> None:
    answer = Client(HTTP_HOST="localhost").get("/sites/")
    assert answer.status_code == 302
    assert "next=/sites/" in answer["Location"]


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("q=www.shop", True),
        ("q=nothing", False),
        ("engine=nginx", True),
        ("engine=apache", False),
        ("host=web-1", True),
        ("team=shop", True),
        ("status=draft", True),
        ("status=live", False),
        ("status=nonsense", False),  # an unknown filter shows nothing, not everything
        ("host=unknown", False),
        ("team=blog", False),
        ("ordering=-server", True),
        ("ordering=password", True),  # not on the list of orderings: as if none were given
        ("page=999", True),
    ],
)
def test_site_list_filters_rows(owner: Client, shop: Site, query: str, is_found: bool) -> None:
    answer = owner.get(f"/sites/?{query}")
    assert answer.status_code == 200
    assert ('href="/sites/shop/"' in answer.content.decode()) is is_found


def queries_of(client: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(url).status_code == 200
    return len(caught)


@pytest.mark.parametrize("url", ["/sites/", "/hosts/", "/sites/+certificates/", "/"])
def test_site_list_query_count_does_not_grow(people: Cast, admin: Client, url: str, shop: Site) -> None:
    before = queries_of(admin, url)
    more_sites(people, 12)
    assert queries_of(admin, url) <= before


def test_selected_sites_are_disabled_together(owner: Client, people: Cast, shop: Site) -> None:
    more_sites(people, 1)
    owner.post("/sites/+bulk/", {"site": ["shop", "n-0"], "action": "disable"})
    assert list(Site.objects.values_list("enabled", flat=True)) == [False, False]


def test_bulk_action_is_rejected_whole_when_one_site_is_of_another_team(people: Cast, shop: Site) -> None:
    block = {"listens": [{"port": 81}], "names": ["b.example"], "root": "/srv/www/b"}
    foreign = shop_definition(people, name="foreign", team="blog", blocks=[block], upstreams=[], php_pools=[])
    services.site_define(actor=people.outsider, data=foreign)
    answer: Any = signed_in(people.owner).post(
        "/sites/+bulk/", {"site": ["shop", "foreign"], "action": "disable"}, follow=True
    )
    assert "Nothing was changed" in answer.content.decode()
    assert Site.objects.filter(enabled=False).count() == 0


def test_viewer_cannot_disable_sites(viewer: Client, shop: Site) -> None:
    assert viewer.post("/sites/+bulk/", {"site": ["shop"], "action": "disable"}).status_code == 403
    shop.refresh_from_db()
    assert shop.enabled


def test_bulk_action_on_get_changes_nothing(owner: Client, shop: Site) -> None:
    for url in ("/sites/+bulk/", "/sites/shop/enable/"):
        assert owner.get(url).status_code == 405
