"""URLs that accept only POST, opened in a browser."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from tests.suites.security.addresses import API, addresses
from tests.support.cast import Cast


@pytest.mark.one_database("the method is refused before rows are read")
def test_get_on_post_only_url_explains_itself(people: Cast, admin: Client) -> None:
    found = 0
    for address in addresses():
        if address.path.startswith(API) or address.name == "accounts:self_check" or "events" in address.path:
            continue
        answer = admin.get(address.path)
        if answer.status_code == 405:
            found += 1
            page = answer.content.decode()
            assert "<h1>This page has no content</h1>" in page and "Go to the dashboard" in page, address.path
            assert "POST" in answer.headers["Allow"]
    assert found > 20, "actions are done by POST alone"


def test_get_on_post_only_url_explains_itself_over_asgi(people: Cast) -> None:
    async def opened() -> str:
        client = AsyncClient()
        await client.aforce_login(people.owner, backend="django.contrib.auth.backends.ModelBackend")
        return (await client.get("/deployments/plan")).content.decode()

    page = async_to_sync(opened)()
    assert "<h1>This page has no content</h1>" in page and "olaf" in page


def test_other_methods_and_api_still_return_plain_405(people: Cast, owner: Client) -> None:
    assert owner.put("/deployments/plan").content == b""
    problem = owner.get("/api/v1/sites/bulk/")
    assert problem.headers["Content-Type"].startswith("application/problem+json")
