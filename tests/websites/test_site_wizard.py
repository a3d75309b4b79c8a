"""The wizard: every kind of site, inline checks, refusals at the field, and who may use it."""

from __future__ import annotations

import html

import pytest
from django.test import Client

from panel.websites.models import Certificate, Location, Site
from tests.support.cast import Cast

URL = "/sites/+new/"


def answers(people: Cast, **changes: object) -> dict[str, object]:
    base = {
        "kind": "static",
        "name": "shop",
        "domains": "shop.example\nwww.shop.example",
        "team": people.team.pk,
        "install": people.nginx.pk,
        "root": "",
        "php_address": "",
        "upstream": "",
        "redirect_to": "",
        "port": 80,
        "tls": "",
    }
    return base | changes


def text_of(answer: object) -> str:
    return html.unescape(answer.content.decode())  # type: ignore[attr-defined]


def test_files_get_a_folder_below_the_hosts_first(owner: Client, people: Cast) -> None:
    answer = owner.post(URL, answers(people))
    assert answer.headers["Location"] == "/sites/shop/"
    block = Site.objects.get(name="shop").blocks.get()
    assert block.root == "/srv/www/shop"
    assert [row.name for row in block.names.all()] == ["shop.example", "www.shop.example"]
    assert [str(row) for row in block.listens.all()] == ["*:80"]


def test_php_has_a_pool_and_a_front_controller(owner: Client, people: Cast) -> None:
    owner.post(URL, answers(people, kind="php", php_address="unix:/run/php/php8.2-fpm.sock"))
    location = Location.objects.get(block__site__name="shop")
    assert (location.match, location.pattern, location.handler) == ("~", r"\.php$", "php")
    assert location.php_pool is not None
    assert location.php_pool.address == "unix:/run/php/php8.2-fpm.sock"
    assert location.block.try_files == ["$uri", "$uri/", "/index.php?$args"]


def test_a_proxy_has_an_upstream(owner: Client, people: Cast) -> None:
    owner.post(URL, answers(people, kind="proxy", upstream="127.0.0.1:3000"))
    location = Location.objects.get(block__site__name="shop")
    assert location.upstream is not None
    assert [row.address for row in location.upstream.servers.all()] == ["127.0.0.1:3000"]


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("https://www.example.com", "https://www.example.com$request_uri"),
        ("https://a.example/x/", "https://a.example/x/"),
    ],
)
def test_a_redirect_leads_there(owner: Client, people: Cast, target: str, value: str) -> None:
    owner.post(URL, answers(people, kind="redirect", redirect_to=target))
    location = Location.objects.get(block__site__name="shop")
    assert (location.return_code, location.return_value) == (301, value)


def test_https_with_a_certificate_made_here(owner: Client, people: Cast) -> None:
    owner.post(URL, answers(people, tls="self_signed"))
    block = Site.objects.get(name="shop").blocks.get()
    assert block.certificate is not None
    assert block.certificate.names == ["shop.example", "www.shop.example"]
    assert sorted((row.port, row.tls) for row in block.listens.all()) == [(80, False), (443, True)]
    assert block.redirect_to_https


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "My Shop"}, "Use lowercase letters a-z and digits"),
        ({"domains": "test..com"}, "test..com has two dots in a row"),
        ({"domains": "a.example;\nb.example{}"}, "is not valid"),
        ({"kind": "proxy", "upstream": ""}, "Enter the address of the application, for example 127.0.0.1:3000."),
        ({"kind": "proxy", "upstream": "127.0.0.1"}, "is not a valid address"),
        (
            {"kind": "php", "php_address": ""},
            "Enter the address of the PHP pool, for example unix:/run/php/php8.2-fpm.sock.",
        ),
        ({"kind": "redirect", "redirect_to": "javascript:alert(1)"}, "Enter a complete URL"),
        ({"root": "srv/www"}, "Enter the absolute path"),
        ({"install": "", "root": ""}, "Enter the folder with the site's files"),
        ({"port": 0}, "Enter a whole number from 1 to 65535"),
        ({"tls": "self_signed", "domains": ""}, "A certificate needs a domain"),
        ({"tls": "certificate:unknown"}, "is not available"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(
    owner: Client, people: Cast, changes: dict[str, object], words: str
) -> None:
    answer = owner.post(URL, answers(people, **changes))
    assert answer.status_code == 422
    assert words in text_of(answer)
    assert not Site.objects.exists()
    assert not Certificate.objects.exists()


def test_a_name_that_is_taken_and_a_domain_that_is_taken(owner: Client, people: Cast, shop: Site) -> None:
    answer = owner.post(URL, answers(people))
    assert "A site named shop already exists" in text_of(answer)
    answer = owner.post(URL, answers(people, name="shop-2", tls="self_signed"))
    assert "already used by the site shop" in text_of(answer)
    assert not Certificate.objects.exists()  # made for the site that could not be made


def test_another_teams_site_cannot_be_made(owner: Client, people: Cast) -> None:
    answer = owner.post(URL, answers(people, team=people.other_team.pk))
    assert answer.status_code == 422
    assert not Site.objects.exists()


def test_a_viewer_may_not(viewer: Client, people: Cast) -> None:
    assert viewer.get(URL).status_code == 403
    assert viewer.post(URL, answers(people)).status_code == 403
    assert not Site.objects.exists()


def test_a_field_is_judged_as_one_types(owner: Client, people: Cast) -> None:
    answer = owner.post(URL, answers(people, domains="test..com", _field="domains"))
    assert answer.status_code == 200
    page = text_of(answer)
    assert 'id="id_domains-error"' in page
    assert "two dots" in page
    assert "<form" not in page
    good = owner.post(URL, answers(people, _field="domains"))
    assert "<p>" not in text_of(good)
    assert not Site.objects.exists()
    assert owner.post(URL, answers(people, _field="nonsense")).status_code == 400


def test_a_proxy_is_not_asked_for_a_folder(owner: Client, people: Cast) -> None:
    answer = owner.post(URL, answers(people, kind="proxy", upstream="127.0.0.1:3000", root="not a path"))
    assert answer.status_code == 302
