"""Pages and API of automatic certificates: the switch, its state, and the borders between teams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from panel.accounts.models import User
from panel.certificates.models import AcmeAccount, AutomaticCertificate, Order
from panel.websites import services as websites
from panel.websites.models import Site
from tests.support.cast import Cast, cast

DIRECTORY = "https://ca.example/directory"


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def site(people: Cast) -> Site:
    return websites.site_create(
        actor=people.owner, team=people.team, name="shop", domains=["shop.example"], web_server=people.nginx,
        root="/srv/www/shop",
    )  # fmt: skip


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def add(client: Client, people: Cast, **values: Any) -> Any:
    data = {"team": people.team.pk, "name": "le", "issuer": "letsencrypt_staging", "email": "", **values}
    return client.post("/certificates/accounts/add", data)


def enable(client: Client, **values: Any) -> Any:
    account = AcmeAccount.objects.get()
    data = {"account": account.pk, "key_type": "p256", "https_port": 443, "http3": "on", **values}
    return client.post("/certificates/sites/shop", data)


def test_operator_adds_an_account_and_turns_the_switch_on(people: Cast, site: Site) -> None:
    client = signed_in(people.owner)
    assert b"Automatic HTTPS is off" in client.get("/certificates/sites/shop").content
    assert add(client, people).status_code == 302
    page = client.get("/certificates/sites/shop").content.decode()
    assert "Turn automatic HTTPS on" in page
    assert enable(client).status_code == 302
    order = Order.objects.get()
    assert (order.status, order.requested_by) == ("queued", people.owner)
    site.refresh_from_db()
    assert site.answers_challenges
    page = client.get("/certificates/sites/shop").content.decode()
    assert "Serve challenges on the host" in page and "hx-trigger" in page
    assert client.get("/certificates/sites/shop/live").status_code == 200
    assert b"le" in client.get("/certificates/accounts").content
    client.post("/certificates/sites/shop/disable")
    assert not AutomaticCertificate.objects.exists()
    site.refresh_from_db()
    assert not site.answers_challenges


def test_operator_cannot_name_another_directory(people: Cast) -> None:
    response = add(signed_in(people.owner), people, issuer="other", directory_url=DIRECTORY)
    assert response.status_code == 403
    assert not AcmeAccount.objects.exists()
    assert add(signed_in(people.admin), people, issuer="other", directory_url=DIRECTORY).status_code == 302


@pytest.mark.parametrize("url", ["http://ca.example/d", "file:///etc/passwd", "https://ca.example/d\nx", "ftp://x"])
def test_directory_is_https(people: Cast, url: str) -> None:
    assert add(signed_in(people.admin), people, issuer="other", directory_url=url).status_code == 422
    assert not AcmeAccount.objects.exists()


def test_other_teams_see_and_change_nothing(people: Cast, site: Site) -> None:
    owner, outsider = signed_in(people.owner), signed_in(people.outsider)
    add(owner, people)
    assert enable(owner).status_code == 302
    for path in ("sites/shop", "sites/shop/live", "accounts/le/delete"):
        assert outsider.get(f"/certificates/{path}").status_code == 404
    for path in ("sites/shop/order", "sites/shop/disable", "accounts/le/delete"):
        assert outsider.post(f"/certificates/{path}").status_code == 404
    assert b"shop" not in outsider.get("/certificates/accounts").content
    assert outsider.get("/api/v1/acme-accounts/le/").status_code == 404
    assert outsider.get("/api/v1/automatic-https/shop/").status_code == 404
    assert AutomaticCertificate.objects.exists()


def test_api_turns_the_switch_on_and_sends_no_key(people: Cast, site: Site) -> None:
    client = signed_in(people.owner)
    body = {
        "team": people.team.slug,
        "name": "le",
        "issuer": "zerossl",
        "eab_key_id": "kid",
        "eab_key": "c2VjcmV0LWtleQ",
    }
    made = client.post("/api/v1/acme-accounts/", json.dumps(body), content_type="application/json")
    assert made.status_code == 201, made.content
    assert b"c2VjcmV0LWtleQ" not in made.content + client.get("/api/v1/acme-accounts/").content
    body = {"site": "shop", "account": "le"}
    done = client.post("/api/v1/automatic-https/", json.dumps(body), content_type="application/json")
    assert done.status_code == 202, done.content
    assert done.headers["Location"] == "/api/v1/automatic-https/shop/"
    found = client.get("/api/v1/automatic-https/shop/").json()
    assert (found["account"], found["order"]["status"], found["order"]["step"]) == ("le", "queued", "prepare")
    Order.objects.update(key_pem="SECRET-ORDER-KEY")
    AcmeAccount.objects.update(key_pem="SECRET-ACCOUNT-KEY")
    seen = client.get("/api/v1/automatic-https/shop/").content + client.get("/api/v1/acme-accounts/le/").content
    seen += client.get("/certificates/sites/shop").content + client.get("/api/v1/audit/").content
    assert b"SECRET" not in seen and b"c2VjcmV0LWtleQ" not in seen
    again = client.post("/api/v1/automatic-https/shop/order/", "{}", content_type="application/json")
    assert again.status_code == 409
    assert client.delete("/api/v1/automatic-https/shop/").status_code == 204


def test_account_in_use_is_not_deleted(people: Cast, site: Site) -> None:
    client = signed_in(people.owner)
    add(client, people)
    enable(client)
    client.post("/certificates/accounts/le/delete", {"name": "le", "confirm": "le"})
    assert AcmeAccount.objects.exists()
