"""A program that calls the API with a token, as the tests see it."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpResponse
from django.test import Client

from panel.accounts.models import User
from panel.accounts.services.tokens import token_create

ALL_SCOPES = ["read", "sites", "deploy", "benchmark"]


class Caller:
    """Each method takes a path below /api/v1/ and header names as HTTP has them."""

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self.client = Client(headers={"Authorization": f"Bearer {plain}"}, raise_request_exception=False)

    def call(self, method: str, path: str, data: Any = None, **headers: str) -> HttpResponse:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        body = "" if data is None else json.dumps(data)
        content_type = sent.pop("Content-Type", "application/json")
        return self.client.generic(method, f"/api/v1/{path}", body, content_type=content_type, headers=sent)  # type: ignore[return-value]

    def get(self, path: str, **headers: str) -> HttpResponse:
        return self.call("GET", path, **headers)

    def post(self, path: str, data: Any = None, **headers: str) -> HttpResponse:
        return self.call("POST", path, {} if data is None else data, **headers)

    def put(self, path: str, data: Any, **headers: str) -> HttpResponse:
        return self.call("PUT", path, data, **headers)

    def patch(self, path: str, data: Any, **headers: str) -> HttpResponse:
        return self.call("PATCH", path, data, **headers)

    def delete(self, path: str, **headers: str) -> HttpResponse:
        return self.call("DELETE", path, **headers)


def caller_of(user: User, scopes: list[str] | None = None, **values: Any) -> Caller:
    chosen = scopes or ([*ALL_SCOPES, "admin"] if user.is_admin else ALL_SCOPES)
    return Caller(token_create(actor=user, name="test", scopes=chosen, **values)[1])


def pointers(response: HttpResponse) -> list[str]:
    return [item["pointer"] for item in json.loads(response.content)["errors"]]


SITE: dict[str, Any] = {
    "name": "shop",
    "team": "shop",
    "blocks": [
        {
            "listens": [{"port": 80}],
            "names": ["shop.example"],
            "root": "/srv/www/shop",
            "index": ["index.html"],
            "locations": [
                {"pattern": "/", "handler": "static"},
                {"match": "=", "pattern": "/old", "handler": "return", "return_code": 301, "return_value": "/new"},
            ],
        }
    ],
}
