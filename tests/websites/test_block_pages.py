"""The editor of server blocks and locations."""

from __future__ import annotations

import html
from typing import Any

import bcrypt
import pytest
from django.test import Client

from panel.websites.models import Location, RawSnippet, ServerBlock, Site


def block_of(site: Site) -> ServerBlock:
    return site.blocks.get()


def fields_of(client: Client, url: str) -> dict[str, Any]:
    """What a browser would send back if nobody touched the form."""
    form = client.get(url).context["form"]
    found = {name: form[name].value() for name in form.fields}
    return {name: "" if value is None else value for name, value in found.items() if value is not False}


def text_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def test_saving_unchanged_block_changes_nothing(owner: Client, shop: Site) -> None:
    url = f"/sites/shop/blocks/{block_of(shop).pk}/"
    before = ServerBlock.objects.values().get()
    sent = fields_of(owner, url)
    assert sent["listens"] == "80"
    assert sent["names"] == "shop.example\nwww.shop.example"
    assert owner.post(url, sent).status_code == 302
    after = ServerBlock.objects.values().get()
    assert {name for name in before if before[name] != after[name]} == {"row_version", "updated_at"}


def test_list_fields_are_edited_one_value_per_line(owner: Client, shop: Site) -> None:
    url = f"/sites/shop/blocks/{block_of(shop).pk}/"
    changes = {
        "listens": "80\n[::]:80 default",
        "headers": "X-Frame-Options: DENY\n[2xx] X-A: b",
        "error_pages": "404 410 = /gone.html",
        "try_files": "$uri $uri/ =404",
    }
    assert owner.post(url, fields_of(owner, url) | changes).status_code == 302
    block = block_of(shop)
    assert [str(row) for row in block.listens.all()] == ["*:80", "[::]:80"]
    assert block.headers[1] == {"name": "X-A", "value": "b", "always": False}
    assert block.error_pages == [{"codes": [404, 410], "uri": "/gone.html", "response": None}]
    assert block.try_files == ["$uri", "$uri/", "=404"]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("listens", "", "Enter at least one address"),
        ("listens", "80\n80", "*:80 appears twice."),
        ("listens", "443 http2", "HTTP/2 needs TLS"),
        ("listens", "1.2.3.4.5:80", "is not an IP address"),
        ("names", "ok.example\nno..pe", "no..pe has two dots in a row"),
        ("names", "~(", "This regular expression is not valid"),
        ("root", "/srv/../etc", "Paths cannot contain . or .."),
        ("headers", "X Y: 1", "is not a header name"),
        ("headers", "X-A: caf\u00e9", "Header values must be ASCII"),
        ("error_pages", "404 /x", "Line 1"),
        ("try_files", "$uri", "Enter at least two entries"),
        ("access_log", "/srv/www/shop/x.php", "Enter a log path that ends in .log"),
        ("client_max_body_mb", "-1", "from 0 to 102400"),
    ],
)
def test_block_error_appears_at_its_field(owner: Client, shop: Site, field: str, value: str, words: str) -> None:
    url = f"/sites/shop/blocks/{block_of(shop).pk}/"
    before = ServerBlock.objects.values().get()
    sent = fields_of(owner, url) | {field: value}
    inline = text_of(owner.post(url, sent | {"_field": field}))
    assert f'id="id_{field}-error"' in inline
    assert words in inline
    answer = owner.post(url, sent)
    assert answer.status_code == 422
    assert any(words in message for message in answer.context["form"].errors[field])
    assert ServerBlock.objects.values().get() == before


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (
            "names",
            "ok.example\nno..pe\nhttp://a.example\nfine.example\na_*_b",
            ["no..pe has", "“http://a.example”:", "a_*_b"],
        ),
        ("listens", "80\nhundred\n443 ssl", ["Line 2, “hundred”", "Line 3, “443 ssl”"]),
        ("listens", "1.2.3.4.5:80\n443 http2", ["is not an IP address", "HTTP/2 needs TLS"]),
        ("headers", "X-A\nX-B: 1\nX-C", ["Line 1", "Line 3"]),
    ],
)
def test_list_field_error_names_every_wrong_line(
    owner: Client, shop: Site, field: str, value: str, words: list[str]
) -> None:
    url = f"/sites/shop/blocks/{block_of(shop).pk}/"
    answer = owner.post(url, fields_of(owner, url) | {field: value})
    assert answer.status_code == 422
    errors = answer.context["form"].errors[field]
    assert len(errors) == len(words)
    for word in words:
        assert any(word in error for error in errors), (word, errors)


def test_stale_block_form_does_not_overwrite_newer_changes(owner: Client, shop: Site) -> None:
    url = f"/sites/shop/blocks/{block_of(shop).pk}/"
    sent = fields_of(owner, url)
    owner.post(url, sent | {"root": "/srv/www/first"})
    answer = owner.post(url, sent | {"root": "/srv/www/second"})
    assert answer.status_code == 422
    assert "was changed or deleted by someone else" in text_of(answer)
    assert block_of(shop).root == "/srv/www/first"


def test_location_is_added_changed_moved_and_deleted(owner: Client, shop: Site) -> None:
    add = f"/sites/shop/blocks/{block_of(shop).pk}/locations/+new/"
    new = {"match": "", "pattern": "/old/", "handler": "return", "return_code": "301", "return_value": "/new/"}
    assert owner.post(add, fields_of(owner, add) | new).status_code == 302
    location = Location.objects.get(pattern="/old/")
    assert location.position == 3
    owner.post(f"/sites/shop/locations/{location.pk}/move/", {"direction": "up"})
    assert [row.pattern for row in block_of(shop).locations.all()] == ["/health", "/api/", "/old/", r"\.php$"]
    url = f"/sites/shop/locations/{location.pk}/"
    assert owner.post(url, fields_of(owner, url) | {"return_code": "302"}).status_code == 302
    location.refresh_from_db()
    assert location.return_code == 302
    assert "Delete the location /old/?" in text_of(owner.get(f"{url}delete/"))
    assert Location.objects.filter(pk=location.pk).exists()
    owner.post(f"{url}delete/")
    assert not Location.objects.filter(pk=location.pk).exists()


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"handler": "proxy", "upstream": ""}, "upstream", "Choose an upstream"),
        ({"handler": "php", "php_pool": ""}, "php_pool", "Choose a PHP pool"),
        ({"handler": "return", "return_code": ""}, "return_code", "Enter the response status"),
        ({"match": "~", "pattern": "("}, "pattern", "is not valid"),
        ({"pattern": "no-slash"}, "pattern", "Enter a path that starts with /"),
        ({"pattern": "/x;}\n"}, "pattern", ""),
        ({"access_rules": "allow 10.0.0.1/8"}, "access_rules", "Enter 10.0.0.0/8"),
        ({"expires": "soon"}, "expires", "Enter off, max, epoch"),
        ({"basic_auth_users": "anna: (kept)"}, "basic_auth_users", "anna has no password yet"),
    ],
)
def test_location_errors_appear_at_their_field(
    owner: Client, shop: Site, changes: dict[str, str], field: str, words: str
) -> None:
    location = Location.objects.get(pattern="/health")
    url = f"/sites/shop/locations/{location.pk}/"
    answer = owner.post(url, fields_of(owner, url) | changes)
    if not words:  # a line break in a one-line field is dropped by the browser's rules, the rest is a plain path
        assert answer.status_code in (302, 422)
        return
    assert answer.status_code == 422
    assert any(words in message for message in answer.context["form"].errors[field])
    location.refresh_from_db()
    assert location.handler == "return"


def test_basic_auth_passwords_are_hashed_and_never_shown(owner: Client, shop: Site) -> None:
    location = Location.objects.get(pattern="/health")
    url = f"/sites/shop/locations/{location.pk}/"
    guarded = {"basic_auth_realm": "Staff", "basic_auth_users": "anna: correct horse"}
    assert owner.post(url, fields_of(owner, url) | guarded).status_code == 302
    location.refresh_from_db()
    hashed = location.basic_auth_users["anna"]
    assert bcrypt.checkpw(b"correct horse", hashed.encode())
    page = text_of(owner.get(url))
    assert "anna: (kept)" in page
    assert hashed not in page
    assert owner.post(url, fields_of(owner, url) | {"basic_auth_users": "anna: (kept)\nbob: x"}).status_code == 302
    location.refresh_from_db()
    assert location.basic_auth_users["anna"] == hashed
    assert set(location.basic_auth_users) == {"anna", "bob"}


def test_viewer_can_read_block_page_but_not_change_it(viewer: Client, shop: Site) -> None:
    location = Location.objects.get(pattern="/health")
    page = text_of(viewer.get("/sites/shop/blocks/"))
    assert "/health" in page
    assert "Add a location" not in page
    for url in (f"/sites/shop/blocks/{block_of(shop).pk}/", f"/sites/shop/locations/{location.pk}/delete/"):
        assert viewer.get(url).status_code == 403
        assert viewer.post(url, {}).status_code == 403
    assert Location.objects.count() == 3


def test_block_page_is_hidden_from_outsider(outsider: Client, shop: Site) -> None:
    location = Location.objects.get(pattern="/health")
    for url in ("blocks/", f"blocks/{block_of(shop).pk}/", f"locations/{location.pk}/", "raw/", "logs/", "tls/"):
        assert outsider.get(f"/sites/shop/{url}").status_code == 404


def test_location_of_another_site_is_not_found_under_own_site(people: Any, outsider: Client, shop: Site) -> None:
    from panel.websites import services

    block = {"listens": [{"port": 81}], "names": ["b.example"], "root": "/srv/www/b", "locations": []}
    services.site_define(actor=people.outsider, data={"name": "mine", "team": "blog", "blocks": [block]})
    foreign = Location.objects.get(pattern="/health")
    assert outsider.post(f"/sites/mine/locations/{foreign.pk}/delete/").status_code == 404
    assert Location.objects.filter(pk=foreign.pk).exists()


def test_raw_directives_require_administrator(owner: Client, admin: Client, shop: Site) -> None:
    url = f"/sites/shop/snippets/+new/?block={block_of(shop).pk}"
    sent = {"engine": "nginx", "text": "client_body_buffer_size 128k;"}
    assert owner.get(url).status_code == 403
    assert owner.post(url, sent).status_code == 403
    assert not RawSnippet.objects.exists()
    assert admin.post(url, sent).status_code == 302
    assert "client_body_buffer_size 128k;" in text_of(owner.get("/sites/shop/blocks/"))


def test_raw_directives_accept_browser_line_breaks(admin: Client, shop: Site) -> None:
    url = f"/sites/shop/snippets/+new/?block={block_of(shop).pk}"
    answer = admin.post(url, {"engine": "nginx", "text": "etag off;\r\nif_modified_since off;\r\n"})
    assert answer.status_code == 302, text_of(answer)
    snippet = RawSnippet.objects.get()
    assert snippet.text == "etag off;\nif_modified_since off;"
    again = {"engine": "nginx", "text": "etag off;\r\nmax_ranges 0;", "version": snippet.row_version}
    assert admin.post(f"/sites/shop/snippets/{snippet.pk}/", again).status_code == 302
    snippet.refresh_from_db()
    assert snippet.text == "etag off;\nmax_ranges 0;"


def test_dangerous_directive_is_rejected(admin: Client, shop: Site) -> None:
    url = f"/sites/shop/snippets/+new/?block={block_of(shop).pk}"
    answer = admin.post(url, {"engine": "nginx", "text": "include /etc/passwd;"})
    assert answer.status_code == 422
    assert "include" in text_of(answer)
    assert not RawSnippet.objects.exists()


@pytest.mark.parametrize(
    ("path", "data", "field", "words"),
    [
        ("upstreams/+new/", {"name": "A b", "servers": "127.0.0.1:1"}, "name", "Use lowercase letters a-z"),
        (
            "upstreams/+new/",
            {"name": "a", "servers": "127.0.0.1:3000", "keepalive": "-1"},
            "keepalive",
            "from 0 to 1024",
        ),
        ("blocks/{block}/", {"listens": "80", "client_max_body_mb": "-1"}, "client_max_body_mb", "from 0 to 102400"),
    ],
)
def test_limit_errors_use_model_messages(
    owner: Client, shop: Site, path: str, data: dict[str, str], field: str, words: str
) -> None:
    answer = owner.post(f"/sites/shop/{path.format(block=block_of(shop).pk)}", data)
    assert answer.status_code == 422
    messages = answer.context["form"].errors[field]
    assert len(messages) == 1 and words in messages[0]


def test_protocol_of_the_upstream_is_saved_and_badged(owner: Client, shop: Site) -> None:
    upstream = shop.upstreams.get(name="app")
    url = f"/sites/shop/blocks/{block_of(shop).pk}/locations/+new/"
    data = {"match": "", "pattern": "/calls/", "handler": "proxy", "upstream": upstream.pk, "upstream_protocol": "grpc"}
    answer = owner.post(url, data)
    assert answer.status_code == 302, answer.context["form"].errors
    assert Location.objects.get(pattern="/calls/").upstream_protocol == "grpc"
    assert "gRPC" in text_of(owner.get("/sites/shop/blocks/"))
    answer = owner.post(url, data | {"pattern": "/other/", "proxy_uri": "/v2/"})
    assert answer.context["form"].errors == {
        "proxy_uri": [
            "gRPC upstreams receive the path of the request unchanged; leave the replacement of the prefix empty."
        ]
    }


def test_empty_burst_field_is_stored_as_none(owner: Client, shop: Site) -> None:
    data = {"match": "", "pattern": "/quiet", "handler": "static", "rate_limit_burst": ""}
    answer = owner.post(f"/sites/shop/blocks/{block_of(shop).pk}/locations/+new/", data)
    assert answer.status_code == 302, answer.context["form"].errors
    assert Location.objects.get(pattern="/quiet").rate_limit_burst == 0
