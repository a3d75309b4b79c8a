"""The OpenAPI schema matches the panel: each operation is called with values generated from the schema."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.core.wsgi import get_wsgi_application
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings

from panel.api.schema import document
from tests.api.caller import caller_of
from tests.suites.security.conftest import session_of
from tests.suites.security.world import build

EXAMPLES = 4  # for each of more than a hundred operations
# Streams go on until their job ends; the walk in docs/api covers them.
LEFT_OUT = {"/api/v1/jobs/{uuid}/events/"}


@pytest.mark.one_database("serializers shape the responses; test_every_url requests the operations on both")
def test_every_operation_matches_schema(transactional_db: None) -> None:
    # Here, since it takes a second, and each process of a parallel run imports all tests.
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    held = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    world = build()
    headers = {"Authorization": f"Bearer {caller_of(world.admin).plain}"}
    schema = schemathesis.openapi.from_wsgi("/api/v1/schema/", get_wsgi_application(), headers=headers)
    wrong, called, answers = [], 0, Counter[int]()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in LEFT_OUT:
            continue

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        )
        @given(case=operation.as_strategy())
        def call(case: Any) -> None:
            response = case.call(headers=headers)
            answers[response.status_code] += 1
            case.validate_response(response, checks=held)

        try:
            call()
        except Exception as error:  # each operation's first fault, so that one run shows all of them
            wrong.append(f"{operation.method.upper()} {operation.path}: {type(error).__name__}: {str(error)[:900]}")
        called += 1
    assert not wrong, "\n\n".join(wrong)
    assert called > 100
    assert answers[200] > 20 and answers[422] > 20 and not answers[401], answers


@pytest.fixture
def schema(db: None) -> dict[str, Any]:
    client = session_of(build().admin)
    found: dict[str, Any] = client.get("/api/v1/schema/", headers={"Accept": "application/json"}).json()
    return found


def test_schema_is_openapi_31_and_describes_conventions(schema: dict[str, Any]) -> None:
    assert schema["openapi"] == "3.1.0"
    listing = {item["name"] for item in schema["paths"]["/api/v1/sites/"]["get"]["parameters"]}
    assert {"limit", "cursor", "ordering", "fields", "name__in", "name__icontains", "created_at__gte"} <= listing
    making = {item["name"] for item in schema["paths"]["/api/v1/deployments/"]["post"]["parameters"]}
    assert {"Idempotency-Key", "dry_run"} <= making
    change = {item["name"] for item in schema["paths"]["/api/v1/sites/{name}/definition/"]["put"]["parameters"]}
    assert "If-Match" in change
    for methods in schema["paths"].values():
        for operation in methods.values():
            assert "application/problem+json" in operation["responses"]["default"]["content"]


def test_schema_is_generated_once_per_process(db: None) -> None:
    client = session_of(build().admin)
    document.cache_clear()
    first, second = (client.get("/api/v1/schema/").content for _ in range(2))
    assert first == second and b"openapi: 3.1.0" in first
    assert document.cache_info().misses == 1


def test_serializers_have_distinct_names_in_schema(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    GENERATOR_STATS.reset()
    SchemaGenerator().get_schema(public=True)
    assert "identical names" not in capsys.readouterr().err


def test_api_docs_require_sign_in_and_meet_content_security_policy(schema: dict[str, Any]) -> None:
    assert Client().get("/api/v1/docs/").status_code == 302
    from panel.accounts.models import User

    client = session_of(User.objects.get(username="vera"))
    page = client.get("/api/v1/docs/")
    text = page.content.decode()
    assert page.status_code == 200 and "<style" not in text and "http://" not in text and "https://" not in text
    assert "SwaggerUIBundle" in client.get("/api/v1/docs/?script=").content.decode()
