"""Rows inserted without objects equal rows saved from objects."""

from __future__ import annotations

import datetime

import pytest
from django.db import IntegrityError, connection
from django.forms.models import model_to_dict
from django.test.utils import CaptureQueriesContext

from panel.accounts.models import User
from panel.audit.models import AuditEntry
from panel.core.bulk_insert import rows_insert
from panel.deployments.models import Deployment, Step, StepStatus
from panel.hosts.models import Host

pytestmark = pytest.mark.django_db

AT = datetime.datetime(2026, 11, 22, 12, 30, 1, 250_000, datetime.UTC)
KEY, OTHERS = ["deployment", "position"], ["name", "status", "argv", "exit_code", "output", "started_at", "finished_at"]


@pytest.fixture
def deployment() -> Deployment:
    return Deployment.objects.create(host=Host.objects.create(name="web-1", address="192.0.2.1"))


def _steps(deployment: Deployment) -> list[dict[str, object]]:
    return [model_to_dict(step, exclude=["id"]) for step in Step.objects.filter(deployment=deployment)]


def test_inserted_rows_equal_saved_objects(deployment: Deployment) -> None:
    values = [
        (0, "lock", StepStatus.SUCCEEDED, [], None, "", AT, None),
        (1, "test", "failed", ["nginx", "-t", 'it\'s "so" %s ?'], 1, "an error\nü %d", AT, AT + datetime.timedelta(1)),
    ]
    Step.objects.bulk_create(
        Step(deployment=deployment, **dict(zip(["position", *OTHERS], row, strict=True))) for row in values
    )
    by_objects = _steps(deployment)
    Step.objects.all().delete()
    rows_insert(Step, [*KEY, *OTHERS], ([deployment.pk, *row] for row in values))
    assert _steps(deployment) == by_objects
    assert len(by_objects) == 2


def test_existing_rows_are_replaced_when_update_is_set(deployment: Deployment) -> None:
    def store(output: str, **said: list[str]) -> None:
        rows = [(deployment.pk, number, "test", "running", [], None, output, AT, None) for number in range(2)]
        rows_insert(Step, [*KEY, *OTHERS], rows, **said)  # type: ignore[arg-type]

    store("first")
    store("second", unique=KEY, update=["output"])
    assert [step["output"] for step in _steps(deployment)] == ["second", "second"]
    with pytest.raises(IntegrityError):
        store("third")


def test_insert_needs_few_statements_for_many_rows(deployment: Deployment) -> None:
    rows = [(deployment.pk, number, "test", "running", [], None, "", AT, None) for number in range(1201)]
    with CaptureQueriesContext(
        connection,
    ) as queries:
        rows_insert(Step, [*KEY, *OTHERS], rows)
        rows_insert(Step, [*KEY, *OTHERS], [])
    assert len(queries) <= 3
    assert [step["position"] for step in _steps(deployment)] == list(range(1201))


def test_insert_supports_special_field_types() -> None:
    user = User.objects.create_user("ada", "correct horse battery staple")
    names = ["at", "actor_id", "actor_label", "action", "object_type", "object_id", "object_label"]
    names += ["token_prefix", "before", "after", "request_id", "address"]
    row = [
        AT,
        user.pk,
        "ada",
        "site.update",
        "websites.site",
        "7",
        "shop",
        "",
        None,
        {"a": [1, None]},
        "",
        "2001:db8::1",
    ]
    rows_insert(AuditEntry, names, [row])
    entry = AuditEntry.objects.get()
    assert (entry.at, entry.actor, entry.before, entry.after) == (AT, user, None, {"a": [1, None]})
    assert entry.address == "2001:db8::1"
