"""Migration 0007 converts plans of the earlier JSON format and reads what follows a success from `after`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from panel.deployments.models import OnSuccess
from panel.deployments.plan import FileAction, FileRecord, PlanFile, PlanSite, PlanWarning, plan_from_json, plan_to_json

migration = import_module("migrations.unsquashed.deployments.0007_typed_plan")

OLD: dict[str, Any] = {
    "sites": [{"id": 1, "name": "shop", "web_server": 7, "number": None, "previous": 2, "unknown": 1}],
    "web_servers": [7],
    "files": [{"path": "/etc/a.conf", "site": "shop", "web_server": 7, "action": "put", "mode": 420, "expect": None}],
    "warnings": [{"site": "shop", "where": "", "text": "kept", "nearest": ""}],
    "drifted": ["/etc/a.conf"],
    "checked": False,
    "unchecked": "web-1 does not answer.",
    "after": {"main": {"web_server": 7, "files": [{"path": "/etc/nginx.conf", "mode": 420}]}},
}


def test_plan_migration_keeps_every_part_of_an_old_plan() -> None:
    plan = plan_from_json(migration._typed(OLD))
    assert plan.sites == [PlanSite(1, "shop", "7", None, 2)]
    assert plan.files == [PlanFile("/etc/a.conf", "shop", 7, FileAction.PUT, 0o644)]
    assert plan.warnings == [PlanWarning("shop", "", "kept")]
    assert (plan.web_servers, plan.drifted, plan.checked) == ([7], ["/etc/a.conf"], False)
    assert plan.main_files == [FileRecord("/etc/nginx.conf", 0o644)]
    assert plan_from_json(plan_to_json(plan)) == plan


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({}, OnSuccess.NOTHING),
        ({"enabled": False}, OnSuccess.DISABLE),
        ({"enabled": False, "delete": [1]}, OnSuccess.DELETE),
        ({"web_server": 7, "then": ["x"]}, OnSuccess.MOVE),
        ({"waits_for": "x"}, OnSuccess.NOTHING),
        (OLD["after"], OnSuccess.MAIN),
    ],
)
def test_plan_migration_reads_what_follows_success(after: dict[str, Any], expected: OnSuccess) -> None:
    assert migration._on_success(after) == expected
