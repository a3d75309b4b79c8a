"""The wizard: every kind of site, inline checks, errors at fields and permissions."""

from __future__ import annotations

import html

import pytest
from django.test import Client

from panel.hosts.models import WebServer
from panel.websites.models import Certificate, Location, Site
from tests.support.cast import Cast

URL = "/sites/+new/"


def answers(people: Cast, **changes: object) -> dict[str, object]:
    base = {
        "kind": "static",
        "name": "shop",
        "domains": "shop.example\nwww.shop.example",
        "team": people.team.pk,
        "web_server": people.nginx.pk,
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


def test_static_site_gets_folder_below_first_site_root(owner: Client, people: Cast) -> None:
    answer = owner.post(URL, answers(people))
    assert answer.headers["Location"] == "/sites/shop/"
    block = Site.objects.get(name="shop").blocks.get()
    assert block.root == "/srv/www/shop"
    assert [row.name for row in block.names.all()] == ["shop.example", "www.shop.example"]
    assert [str(row) for row in block.listens.all()] == ["*:80"]


def test_php_site_gets_pool_and_front_controller(owner: Client, people: Cast) -> None:
    owner.post(URL, answers(people, kind="php", php_address="unix:/run/php/php8.2-fpm.sock"))
    location = Location.objects.get(block__site__name="shop", handler="php")
    assert (location.match, location.pattern, location.handler) == ("~", r"\.php$", "php")
    assert location.php_pool is not None
    assert location.php_pool.address == "unix:/run/php/php8.2-fpm.sock"
    assert location.block.try_files == ["$uri", "$uri/", "/index.php?$args"]


def test_wizard_suggests_the_only_php_socket(client: Client, people: Cast) -> None:
    client.force_login(people.admin)
    sockets = ["/run/php/php8.2-fpm.sock", "/run/php/php8.4-fpm.sock"]
    for found, suggested in ((sockets[:1], f"unix:{sockets[0]}"), (sockets, "")):
        people.host.facts = {"php_sockets": found}
        people.host.save()
        assert (client.get(URL).context["form"]["php_address"].value() or "") == suggested


def test_wizard_suggests_the_only_web_server(owner: Client, people: Cast) -> None:
    assert owner.get(URL).context["form"]["web_server"].value() is None
    WebServer.objects.exclude(pk=people.nginx.pk).delete()
    assert f'<option value="{people.nginx.pk}" selected>' in text_of(owner.get(URL))


def test_proxy_site_gets_upstream(owner: Client, people: Cast) -> None:
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
def test_redirect_site_gets_return_location(owner: Client, people: Cast, target: str, value: str) -> None:
    owner.post(URL, answers(people, kind="redirect", redirect_to=target))
    location = Location.objects.get(block__site__name="shop")
    assert (location.return_code, location.return_value) == (301, value)


def test_https_site_gets_self_signed_certificate(owner: Client, people: Cast) -> None:
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
        ({"web_server": "", "root": ""}, "Enter the folder with the site's files"),
        ({"port": 0}, "Enter a whole number from 1 to 65535"),
        ({"tls": "self_signed", "domains": ""}, "A certificate needs a domain"),
        ({"tls": "certificate:unknown"}, "is not available"),
    ],
)
def test_wizard_errors_are_shown_and_nothing_is_created(
    owner: Client, people: Cast, changes: dict[str, object], words: str
) -> None:
    answer = owner.post(URL, answers(people, **changes))
    assert answer.status_code == 422
    assert words in text_of(answer)
    assert not Site.objects.exists()
    assert not Certificate.objects.exists()


def test_wizard_rejects_taken_name_and_domain(owner: Client, people: Cast, shop: Site) -> None:
    answer = owner.post(URL, answers(people))
    assert "A site named shop already exists" in text_of(answer)
    answer = owner.post(URL, answers(people, name="shop-2", tls="self_signed"))
    assert "already used by the site shop" in text_of(answer)
    assert not Certificate.objects.exists()  # made for the site that could not be made


def test_wizard_rejects_team_of_others(owner: Client, people: Cast) -> None:
    answer = owner.post(URL, answers(people, team=people.other_team.pk))
    assert answer.status_code == 422
    assert not Site.objects.exists()


def test_wizard_is_forbidden_for_viewer(viewer: Client, people: Cast) -> None:
    assert viewer.get(URL).status_code == 403
    assert viewer.post(URL, answers(people)).status_code == 403
    assert not Site.objects.exists()


def test_wizard_validates_field_while_typing(owner: Client, people: Cast) -> None:
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


def test_wizard_asks_proxy_site_for_no_folder(owner: Client, people: Cast) -> None:
    answer = owner.post(URL, answers(people, kind="proxy", upstream="127.0.0.1:3000", root="not a path"))
    assert answer.status_code == 302
