"""The page that names the location of a request, for drafts too."""

from __future__ import annotations

import html
import time
from typing import Any

import pytest
from django.test import Client

from panel.websites import services
from panel.websites.models import Location, ServerName, Site
from tests.api.caller import caller_of
from tests.support.cast import Cast
from tests.websites.conftest import shop_definition

URL = "/sites/shop/explain/"


def text_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


@pytest.mark.parametrize(
    ("address", "pattern"),
    [
        ("http://shop.example/health", "/health"),
        ("http://www.shop.example/api/v1/items?x=1", "/api/"),
        ("http://shop.example/a/../b/x.php", r"\.php$"),
    ],
)
def test_which_location_page_links_to_matching_location(owner: Client, shop: Site, address: str, pattern: str) -> None:
    page = text_of(owner.get(URL, {"url": address}))
    location = Location.objects.get(pattern=pattern)
    assert f'href="/sites/shop/locations/{location.pk}/"' in page
    assert "server block 1 of shop (shop.example www.shop.example) answers" in page


def test_which_location_page_names_server_block_when_no_location_matches(owner: Client, shop: Site) -> None:
    page = text_of(owner.get(URL, {"url": "http://shop.example/about.html"}))
    assert f"{shop.blocks.get().root}/about.html, if it exists; otherwise 404" in page
    assert f'href="/sites/shop/blocks/{shop.blocks.get().pk}/"' in page


def test_which_location_page_reports_unused_port(owner: Client, shop: Site) -> None:
    assert "no server block listens on port 8443" in text_of(owner.get(URL, {"url": "https://shop.example:8443/"}))


def test_which_location_page_works_for_draft_without_web_server(owner: Client, people: Cast) -> None:
    services.site_define(actor=people.owner, data=shop_definition(people, web_server=None))
    assert "/health" in text_of(owner.get(URL, {"url": "http://shop.example/health"}))


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("shop.example/x", "Enter a complete URL"),
        ("ftp://shop.example/", "Enter a complete URL"),
        ("http:///x", "Enter a complete URL"),
        ("http://[::1/", "This is not a valid URL"),
        ("http://shop.example:99999/", "This is not a valid URL"),
        ("http://shop.example/a\u2028b", "server settings cannot contain it"),
        ("", "Enter an address"),
    ],
)
def test_which_location_page_rejects_invalid_url(owner: Client, shop: Site, address: str, words: str) -> None:
    answer = owner.get(URL, {"url": address})
    assert answer.status_code == 200
    assert words in text_of(answer)
    assert "Request handling" not in text_of(answer)


def test_which_location_page_hides_matching_site_of_another_team(
    owner: Client, admin: Client, people: Cast, shop: Site
) -> None:
    block = {"listens": [{"port": 80}], "names": ["hidden.example"], "root": "/srv/www/b", "locations": []}
    data = {"name": "secret-project", "team": "blog", "web_server": people.nginx.pk, "blocks": [block]}
    services.site_define(actor=people.outsider, data=data)
    page = text_of(owner.get(URL, {"url": "http://hidden.example/"}))
    assert "site handles this request. Ask an administrator" in page
    assert "secret-project" not in page
    assert 'href="/sites/secret-project/"' in text_of(admin.get(URL, {"url": "http://hidden.example/"}))


def test_which_location_page_returns_only_result_while_typing(owner: Client, shop: Site) -> None:
    answer = owner.get(URL, {"url": "http://shop.example/health"}, HTTP_HX_REQUEST="true", HTTP_HX_TARGET="answer")
    assert b"<html" not in answer.content
    assert "Request handling" in text_of(answer)


def test_which_location_page_is_hidden_from_outsider(outsider: Client, shop: Site) -> None:
    assert outsider.get(URL, {"url": "http://shop.example/"}).status_code == 404


def test_which_location_page_links_to_block_for_its_try_files(owner: Client, people: Cast, shop: Site) -> None:
    block = shop.blocks.get()
    services.block_update(actor=people.owner, block=block, try_files=["$uri", "=404"])
    page = text_of(owner.get(URL, {"url": "http://shop.example/about.html"}))
    assert f'href="/sites/shop/blocks/{block.pk}/"' in page
    assert "Edit this server block" in page


SLOW = r"^/(a+)+$"


def test_slow_regular_expression_is_stopped_and_named(owner: Client, shop: Site, people: Cast) -> None:
    """Such an expression used to stop the web process: its time doubled with each letter of the path."""
    Location.objects.filter(pattern=r"\.php$").update(pattern=SLOW)
    began = time.thread_time()
    page = text_of(owner.get(URL, {"url": "http://shop.example/" + "a" * 60 + "!"}))
    assert time.thread_time() - began < 2
    assert f"The regular expression “{SLOW}” takes too long" in page
    url = "http://shop.example/" + "a" * 60 + "!"
    answer = caller_of(people.owner).get(f"sites/shop/explain/?url={url}")
    assert answer.status_code == 400 and "takes too long" in answer.json()["detail"]


def test_slow_server_name_of_another_team_is_hidden(owner: Client, shop: Site, people: Cast) -> None:
    definition = shop_definition(people, name="other", team=people.other_team.slug, upstreams=[], php_pools=[])
    definition["blocks"] = [{"listens": [{"port": 80}], "names": ["other.example"], "root": "/srv/www/other"}]
    other = services.site_define(actor=people.admin, data=definition)
    ServerName.objects.filter(block__site=other).update(name=r"~^(a+)+$")
    page = text_of(owner.get(URL, {"url": "http://" + "a" * 60 + ".b/"}))
    assert "Paddock cannot evaluate a server name of another site on this web server" in page
    assert "(a+)+" not in page


def test_which_location_names_raw_directives_that_it_does_not_evaluate(owner: Client, people: Cast, shop: Site) -> None:
    block = shop.blocks.get()
    health = Location.objects.get(pattern="/health")
    admin = people.admin
    services.snippet_create(actor=admin, site=shop, engine="nginx", block=block, text="if ($arg_x) { return 403; }")
    services.snippet_create(actor=admin, site=shop, engine="nginx", location=health, text="etag on;")
    services.snippet_create(actor=admin, site=shop, engine="apache", block=block, text="RewriteEngine On")
    page = text_of(owner.get(URL, {"url": "http://shop.example/health"}))
    assert "Raw directives of the server block can change this result: if, return." in page
    assert "Raw directives of the location" not in page, "an ETag chooses nothing"
    told = owner.get("/api/v1/sites/shop/explain/", {"url": "http://shop.example/health"}).json()
    last = told["steps"][-1]
    assert last["name"] == "raw" and "Send the request to the web server" in last["reasons"][0]
    on_apache = f"/api/v1/sites/shop/explain/?web_server={people.apache.pk}&url=http://shop.example/health"
    assert "RewriteEngine" in owner.get(on_apache).json()["steps"][-1]["text"]
