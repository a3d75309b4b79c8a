"""Administrators list what teams may use beyond their own, on pages and over the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.test import Client

from panel.accounts.models import User
from panel.accounts.services.tokens import token_create
from panel.audit.models import AuditEntry
from panel.websites import services
from panel.websites.models import Allowance, AllowanceKind
from tests.support.cast import Cast, signed_in

SHARED = "/sites/+shared/"
SERVICES = "/hosts/web-1/local-services/"
API = "/api/v1/allowances/"


@pytest.fixture(autouse=True)
def empty(people: Cast) -> None:
    Allowance.objects.all().delete()


def api(person: User, *scopes: str) -> Client:
    _token, plain = token_create(actor=person, name=f"t-{person.pk}", scopes=list(scopes))
    return Client(HTTP_HOST="localhost", headers={"authorization": f"Bearer {plain}"})


def post(client: Client, **values: Any) -> Any:
    return client.post(API, json.dumps(values), content_type="application/json")


def test_host_page_lists_and_withdraws_local_service(people: Cast) -> None:
    browser = signed_in(people.admin)
    values = {"value": "localhost:3000", "team": people.team.pk, "note": "the shop's application"}
    assert browser.post(SERVICES, values).status_code == 302
    row = Allowance.objects.get()
    assert (row.kind, row.value, row.team, row.host) == ("service", "127.0.0.1:3000", people.team, people.host)
    assert row.granted_by == people.admin
    page = browser.get(SERVICES).content.decode()
    assert "127.0.0.1:3000" in page and "the shop&#x27;s application" in page
    assert browser.post(f"/sites/+allowances/{row.pk}/delete/").headers["Location"] == SERVICES
    assert not Allowance.objects.exists()
    actions = (
        AuditEntry.objects.filter(object_type="websites.allowance").order_by("pk").values_list("action", flat=True)
    )
    assert list(actions) == ["allowance.create", "allowance.delete"]


@pytest.mark.parametrize("kind", ["", "unknown"])
@pytest.mark.parametrize("inline", [{}, {"_field": "value"}])
def test_shared_name_form_is_rejected_when_type_is_missing(people: Cast, kind: str, inline: dict[str, str]) -> None:
    values = {"kind": kind, "value": "shop.example", "team": people.team.pk, **inline}
    answer = signed_in(people.admin).post(SHARED, values)
    assert answer.status_code == (200 if inline else 422)
    assert not Allowance.objects.exists()


def test_sites_page_lists_shared_name(people: Cast) -> None:
    browser = signed_in(people.admin)
    values = {"kind": "name", "value": "Shop.Blog.example", "team": people.team.pk, "host": "", "note": ""}
    assert browser.post(SHARED, values).status_code == 302
    row = Allowance.objects.get()
    assert (row.kind, row.value, row.host) == ("name", "shop.blog.example", None)
    assert "shop.blog.example" in browser.get(SHARED).content.decode()


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"kind": "service", "value": "3000"}, "value"),
        ({"kind": "service", "value": "unix:/run/../x"}, "value"),
        ({"kind": "service", "value": "127.0.0.1:3000", "host": None}, "host"),
        ({"kind": "name", "value": "a.example"}, "team"),
        ({"kind": "name", "value": "not a name", "team": "shop"}, "value"),
        ({"kind": "address", "value": "a.example:80", "team": "shop"}, "value"),
        ({"kind": "default", "value": "*:0", "team": "shop"}, "value"),
        ({"kind": "other", "value": "x", "team": "shop"}, "kind"),
        ({"kind": "name", "value": "a.example", "team": "nobody"}, "team"),
    ],
)
def test_allowance_errors_appear_at_their_field(people: Cast, values: dict[str, Any], field: str) -> None:
    answer = post(api(people.admin, "admin"), **{"host": "web-1"} | values)
    assert answer.status_code == 422, answer.json()
    assert [error["pointer"] for error in answer.json()["errors"]] == [f"/{field}"]
    assert not Allowance.objects.exists()


def test_api_lists_creates_and_withdraws_allowances(people: Cast) -> None:
    client = api(people.admin, "admin")
    made = post(client, kind="service", value="/run/app.sock", host="web-1")
    assert made.status_code == 201, made.json()
    assert made.json()["value"] == "unix:/run/app.sock" and made.json()["team"] is None
    assert post(client, kind="service", value="unix:/run/app.sock", host="web-1").status_code == 422
    assert [row["id"] for row in client.get(f"{API}?kind=service&host__name=web-1").json()["results"]] == [
        made.json()["id"]
    ]
    assert client.delete(made.headers["Location"]).status_code == 204
    assert not Allowance.objects.exists()


def test_operators_see_own_allowances_and_change_none(people: Cast) -> None:
    rows = [
        Allowance.objects.create(kind=AllowanceKind.SERVICE, value=f"127.0.0.1:{3000 + n}", team=team, host=people.host)
        for n, team in enumerate((people.team, people.other_team, None))
    ]
    client = api(people.owner, "read", "sites", "deploy")
    assert [row["id"] for row in client.get(API).json()["results"]] == [rows[0].pk, rows[2].pk]
    assert client.get(f"{API}{rows[1].pk}/").status_code == 404
    assert post(client, kind="service", value="127.0.0.1:9", host="web-1").status_code == 403
    assert client.delete(f"{API}{rows[0].pk}/").status_code == 403
    browser = signed_in(people.owner)
    assert browser.get(SHARED).status_code == 403
    page = browser.get(SERVICES).content.decode()
    assert rows[0].value in page and rows[2].value in page and rows[1].value not in page
    assert "+allowances" not in page and 'name="value"' not in page
    assert browser.post(SERVICES, {"value": "127.0.0.1:9"}).status_code == 403
    assert browser.post(f"/sites/+allowances/{rows[0].pk}/delete/").status_code == 403
    with pytest.raises(PermissionDenied):
        services.allowance_create(actor=people.owner, kind="service", value="127.0.0.1:9", host=people.host)
    assert Allowance.objects.count() == 3


def test_listed_overlap_lets_operator_save(people: Cast) -> None:
    given = {"web_server": people.nginx, "root": "/srv/www/blog"}
    services.site_create(
        actor=people.outsider, team=people.other_team, name="blog", domains=["*.blog.example"], **given
    )

    def shop() -> None:
        services.site_create(
            actor=people.owner,
            team=people.team,
            name="shop",
            domains=["shop.blog.example"],
            address="127.0.0.1",
            web_server=people.nginx,
            root="/srv/www/shop",
        )

    with pytest.raises(ValidationError) as caught:
        shop()
    assert set(caught.value.message_dict) == {"domains", "port"}
    services.allowance_create(actor=people.admin, kind="name", value="shop.blog.example", team=people.team)
    services.allowance_create(
        actor=people.admin, kind="address", value="127.0.0.1:80", team=people.team, host=people.host
    )
    shop()
