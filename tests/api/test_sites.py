"""Desired state over the API: sites, their parts, certificates."""

from __future__ import annotations

import time

import pytest
from django.test import Client

from panel.websites.models import Certificate, Location, RawSnippet, Site
from tests.api.caller import SITE, Caller, pointers
from tests.support.cast import Cast


@pytest.fixture
def shop(owner: Caller) -> str:
    assert owner.post("sites/", SITE).status_code == 201
    return "shop"


def test_site_definition_round_trips(owner: Caller, shop: str) -> None:
    definition = owner.get("sites/shop/definition/").json()
    assert definition["blocks"][0]["names"] == ["shop.example"]
    assert [row["pattern"] for row in definition["blocks"][0]["locations"]] == ["/", "/old"]
    answer = owner.put("sites/shop/definition/", definition)
    assert answer.status_code == 200 and answer.json() == definition


def test_put_replaces_site_exactly_or_changes_nothing(owner: Caller, shop: str) -> None:
    bad = SITE | {"blocks": [SITE["blocks"][0] | {"names": ["ok.example", "bad name"]}]}
    assert owner.put("sites/shop/definition/", bad).status_code == 422
    assert owner.get("sites/shop/").json()["domains"] == ["shop.example"]
    assert owner.put("sites/shop/definition/", SITE | {"blocks": []}).status_code == 200
    assert owner.get("sites/shop/").json()["domains"] == []


def test_quick_endpoint_creates_site(owner: Caller, people: Cast) -> None:
    body = {"team": "shop", "name": "new", "domains": ["new.example"], "root": "/srv/www/new"}
    body["web_server"] = people.nginx.pk  # type: ignore[assignment]
    made = owner.post("sites/quick/", body)
    assert made.status_code == 201, made.content
    assert made.json()["host"] == "web-1" and made["Location"] == "/api/v1/sites/new/"
    both = owner.post("sites/quick/", body | {"name": "x", "upstream": "127.0.0.1:3000"})
    assert both.status_code == 422 and pointers(both) == ["/root"]
    nowhere = owner.post("sites/quick/", body | {"name": "x", "web_server": 999})
    assert nowhere.status_code == 422 and pointers(nowhere) == ["/web_server"]


def test_site_is_cloned_enabled_and_transferred(owner: Caller, admin: Caller, shop: str) -> None:
    assert owner.post("sites/shop/clone/", {"name": "copy"}).json()["enabled"] is False
    assert owner.post("sites/copy/clone/", {"name": "c2", "domains": ["c2.example"]}).json()["domains"] == [
        "c2.example"
    ]
    assert owner.patch("sites/shop/", {"team": "blog"}).status_code in {403, 422}
    assert admin.patch("sites/shop/", {"team": "blog"}).json()["team"] == "blog"
    assert owner.get("sites/shop/").status_code == 404


def test_clone_accepts_other_web_server_and_port(owner: Caller, people: Cast, shop: str) -> None:
    body = {"name": "beside", "web_server": people.nginx.pk, "port": 8080}
    made = owner.post("sites/shop/clone/", body)
    assert made.status_code == 201, made.content
    assert made.json()["web_server"] == people.nginx.pk and made.json()["enabled"] is True
    copy = owner.get("sites/beside/definition/").json()
    assert [listen["port"] for listen in copy["blocks"][0]["listens"]] == [8080]
    assert copy["blocks"][0]["names"] == ["shop.example"]
    for wrong in ({"web_server": 999}, {"port": 0}, {"port": 65536}):
        refused = owner.post("sites/shop/clone/", {"name": "x"} | wrong)
        assert refused.status_code == 422 and pointers(refused) == [f"/{next(iter(wrong))}"]
    assert not Site.objects.filter(name="x").exists()


def test_problems_list_reasons_against_deployment(owner: Caller, shop: str) -> None:
    assert [row["pointer"] for row in owner.get("sites/shop/problems/").json()] == ["/web_server"]


def test_site_parts_are_created_changed_ordered_and_deleted(owner: Caller, shop: str) -> None:
    block = owner.post("blocks/", {"site": "shop", "listens": [{"port": 8080}], "names": ["b.example"]})
    assert block.status_code == 201, block.content
    path = block["Location"].removeprefix("/api/v1/")
    upstream = owner.post("upstreams/", {"site": "shop", "name": "app", "servers": [{"address": "127.0.0.1:3000"}]})
    assert upstream.status_code == 201
    first = owner.post(f"{path}locations/", {"pattern": "/", "handler": "proxy", "upstream": "app"})
    second = owner.post(f"{path}locations/", {"pattern": "/x"})
    assert (first.status_code, second.status_code) == (201, 201), first.content
    order = [second.json()["id"], first.json()["id"]]
    assert [row["id"] for row in owner.put(f"{path}locations/order/", {"order": order}).json()] == order
    used = owner.delete(upstream["Location"].removeprefix("/api/v1/"))
    assert used.status_code == 409 and "used by" in used.json()["detail"]
    changed = owner.patch(first["Location"].removeprefix("/api/v1/"), {"handler": "deny", "upstream": None})
    assert changed.status_code == 200 and changed.json()["upstream"] is None
    assert owner.delete(upstream["Location"].removeprefix("/api/v1/")).status_code == 204
    assert owner.delete(path).status_code == 204
    assert Location.objects.filter(pk__in=order).count() == 0


def test_site_parts_cannot_move_to_another_site(owner: Caller, shop: str) -> None:
    owner.post("sites/", SITE | {"name": "other", "blocks": []})
    pool = owner.post("php-pools/", {"site": "shop", "name": "php", "address": "127.0.0.1:9000"})
    answer = owner.patch(pool["Location"].removeprefix("/api/v1/"), {"site": "other"})
    assert answer.status_code == 422 and pointers(answer) == ["/site"]
    block = owner.get("blocks/?site__name=shop").json()["results"][0]["id"]
    foreign = owner.post(f"blocks/{block}/locations/", {"pattern": "/p", "handler": "php", "php_pool": "none"})
    assert foreign.status_code == 422 and pointers(foreign) == ["/php_pool"]


def test_basic_auth_hashes_are_accepted_and_never_returned(owner: Caller, shop: str) -> None:
    hashed = "$2y$12$" + "a" * 53
    block = owner.get("blocks/?site__name=shop").json()["results"][0]["id"]
    body = {"pattern": "/in", "basic_auth_realm": "in", "basic_auth_users": {"anna": hashed}}
    made = owner.post(f"blocks/{block}/locations/", body)
    assert made.status_code == 201 and made.json()["basic_auth_users"] == {"anna": "(secret)"}
    definition = owner.get("sites/shop/definition/")
    assert hashed not in definition.content.decode()
    owner.put("sites/shop/definition/", definition.json())
    assert Location.objects.get(pattern="/in").basic_auth_users == {"anna": hashed}


def test_raw_directives_require_administrator_and_confirmed_session(
    owner: Caller, admin: Caller, people: Cast, shop: str
) -> None:
    block = owner.get("blocks/?site__name=shop").json()["results"][0]["id"]
    body = {"site": "shop", "engine": "nginx", "block": block, "text": "add_header X-A b;"}
    assert owner.post("snippets/", body).status_code == 403
    raw = SITE | {"blocks": [SITE["blocks"][0] | {"snippets": {"nginx": "add_header X-A b;"}}]}
    assert owner.put("sites/shop/definition/", raw).status_code == 403
    session = Client(raise_request_exception=False)
    session.force_login(people.admin)
    kept = session.session
    kept["sudo_at"] = int(time.time()) - 1000
    kept.save()
    for method, path, data in (("POST", "snippets/", body), ("PUT", "sites/shop/definition/", raw)):
        import json

        answer = session.generic(method, f"/api/v1/{path}", json.dumps(data), content_type="application/json")
        assert answer.status_code == 403 and answer.json()["type"].endswith("/confirm/")
    assert not RawSnippet.objects.exists()
    kept = session.session
    kept["sudo_at"] = int(time.time())
    kept.save()
    assert session.post("/api/v1/snippets/", body, content_type="application/json").status_code == 201
    snippet = admin.get("snippets/?site__name=shop").json()["results"][0]
    assert admin.patch(f"snippets/{snippet['id']}/", {"text": "add_header X-A c;"}).json()["text"].endswith("c;")
    assert admin.patch(f"snippets/{snippet['id']}/", {"engine": "apache"}).status_code == 422
    assert admin.delete(f"snippets/{snippet['id']}/").status_code == 204


def test_private_keys_are_accepted_and_never_returned(owner: Caller) -> None:
    made = owner.post("certificates/self-sign/", {"team": "shop", "name": "own", "names": ["shop.example"]})
    assert made.status_code == 201, made.content
    row = Certificate.objects.get(name="own")
    body = {
        "team": "shop",
        "name": "up",
        "certificate_pem": row.certificate_pem,
        "private_key_pem": row.private_key_pem,
    }
    uploaded = owner.post("certificates/", body)
    assert uploaded.status_code == 201
    for answer in (made, uploaded, owner.get("certificates/"), owner.get("certificates/up/")):
        assert "PRIVATE" not in answer.content.decode() and "private_key" not in answer.content.decode()
    wrong = owner.post("certificates/", body | {"name": "w", "private_key_pem": "x"})
    assert wrong.status_code == 422 and pointers(wrong) == ["/private_key_pem"]
    again = owner.put("certificates/up/", {k: body[k] for k in ("certificate_pem", "private_key_pem")})
    assert again.status_code == 200
    assert owner.delete("certificates/up/").status_code == 204


def test_undeployed_site_can_be_deleted(owner: Caller, shop: str) -> None:
    assert owner.delete("sites/shop/").status_code == 204
    assert not Site.objects.exists()
