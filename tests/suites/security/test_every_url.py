"""Every URL of the URLconf with every method, event streams included."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.db import connection
from django.http.response import HttpResponseBase, StreamingHttpResponse
from django.test import Client

from tests.suites.security.addresses import API, PUBLIC, Address, addresses
from tests.suites.security.conftest import session_of
from tests.suites.security.world import HOST, NAME, SECRETS, World

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
# Addresses whose whole purpose is data of another kind than the world's.
_LONG = {"accounts:self_check"}  # asks the workers and waits for them


def body_of(response: HttpResponseBase) -> str:
    if isinstance(response, StreamingHttpResponse):
        return async_to_sync(_streamed)(response) if response.is_async else b"".join(response).decode()
    return response.content.decode(errors="replace")  # type: ignore[attr-defined, no-any-return]


async def _streamed(response: StreamingHttpResponse) -> str:
    return b"".join([part async for part in response]).decode()


def test_public_url_list_names_existing_urls_only() -> None:
    names = {address.name for address in addresses()}
    assert {"accounts:login", "accounts:setup", "api:me"} <= names


@pytest.mark.parametrize("method", METHODS)
def test_anonymous_requests_get_no_data(world: World, method: str) -> None:
    """One client for all URLs: no response may sign it in."""
    client, wrong = Client(raise_request_exception=False), []
    for address in addresses():
        response = client.generic(method, address.path, content_type="application/json")
        text = body_of(response)
        is_refused = response.status_code in {401, 403, 404, 405} or (
            response.status_code == 302 and response["Location"].startswith("/login/")
        )
        if address.name in PUBLIC:
            is_refused = response.status_code < 500
        if not is_refused or NAME in text or HOST in text:
            wrong.append(f"{method} {address} -> {response.status_code}")
    assert not wrong, "\n".join(wrong)
    assert "_auth_user_id" not in client.session


def test_forged_token_and_session_are_anonymous(world: World) -> None:
    headers = {"Authorization": f"Bearer {world.token[:-1]}x", "Cookie": "paddock_session=guess"}
    client, wrong = Client(headers=headers, raise_request_exception=False), []
    for address in addresses():
        response = client.get(address.path)
        if (
            address.path.startswith(API)
            and address.name not in PUBLIC | {"api:docs"}
            and response.status_code not in (401, 429)
        ):
            wrong.append(f"{address} -> {response.status_code}")
        if NAME in body_of(response):
            wrong.append(f"{address} shows {NAME}")
    assert not wrong, "\n".join(wrong)


def crawl(client: Client) -> dict[Address, HttpResponseBase]:
    return {address: client.get(address.path) for address in addresses() if address.name not in _LONG}


def test_pages_never_fail_or_show_secrets_to_administrators(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Each page has the strict policy and the other headers, and no inline code."""
    wrong, shown = [], 0
    for address, response in crawl(session_of(world.admin)).items():
        text = body_of(response)
        wrong += lax(address, response, text)
        shown += response.status_code == 200
        if response.status_code >= 500:
            wrong.append(f"{address} -> {response.status_code}")
        wrong += [f"{address} shows the {what}" for what, secret in world.secrets.items() if secret in text]
    assert not wrong, "\n".join(wrong)
    assert shown > 60, "most addresses should have shown something"
    assert not [what for what, secret in SECRETS.items() if secret in caplog.text]


def lax(address: Address, response: HttpResponseBase, text: str) -> list[str]:
    """Where an answer allows more than it needs."""
    found = []
    policy = response.headers.get("Content-Security-Policy", "")
    if "script-src 'self'" not in policy or "unsafe" in policy or "frame-ancestors 'none'" not in policy:
        found.append(f"{address}: {policy}")
    for header, value in (
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "same-origin"),
    ):
        if response.headers.get(header) != value:
            found.append(f"{address}: {header} is {response.headers.get(header)}")
    if not response.headers.get("X-Request-Id"):
        found.append(f"{address}: no request id")
    if response["Content-Type"].startswith("text/html") and ("<script>" in text or " style=" in text):
        found.append(f"{address}: inline script or style")
    return found


def test_objects_of_other_teams_are_hidden_everywhere(world: World) -> None:
    wrong = []
    for address, response in crawl(session_of(world.outsider)).items():
        text = body_of(response).replace(f'value="{NAME}"', "")
        if response.status_code >= 500:
            wrong.append(f"{address} -> {response.status_code}")
        if NAME in text.replace(address.path, ""):
            wrong.append(f"{address} ({response.status_code}) shows {NAME}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.one_database("permissions are decided in Python; the test of hidden objects runs on both")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_objects_of_other_teams_cannot_be_changed(world: World, method: str) -> None:
    """By a member of another team and by a viewer: no request changes anything."""
    before = fingerprint()
    for person in (world.outsider, world.viewer):
        client = session_of(person)
        for address in addresses():
            if address.name in {"accounts:logout"} | PUBLIC or address.path.startswith("/account"):
                continue
            response = client.generic(method, address.path, "{}", content_type="application/json")
            assert response.status_code < 500, f"{method} {address} -> {response.status_code}"
    assert fingerprint() == before


def fingerprint() -> dict[str, list[object]]:
    """All rows of the panel's own tables except those that record reading, as the database holds them."""
    own = ("hosts", "websites", "deployments", "benchmarks", "comparisons", "accounts")
    skipped = {"last_login", "last_used_at", "last_used_address", "updated_at", "row_version"}
    found: dict[str, list[object]] = {}
    with connection.cursor() as cursor:
        for model in apps.get_models():
            if model._meta.app_label in own:
                kept = sorted(field.column for field in model._meta.concrete_fields if field.attname not in skipped)
                names = [connection.ops.quote_name(name) for name in [*kept, model._meta.pk.column]]
                table = connection.ops.quote_name(model._meta.db_table)
                cursor.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {names[-1]}")
                found[model._meta.label] = cursor.fetchall()
    return found


def test_every_event_stream_rejects_cross_origin_pages(world: World) -> None:
    client = session_of(world.admin)
    streams = [address for address in addresses() if "events" in address.path]
    assert len(streams) >= 2, "jobs have one stream on pages and one in the API"
    for address in streams:
        path = address.path
        assert client.get(path).status_code == 200, path
        assert client.get(path, headers={"Origin": "https://evil.example"}).status_code == 403, path
        assert client.get(path, headers={"Origin": "null"}).status_code == 403, path
        assert client.get(path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403, path
