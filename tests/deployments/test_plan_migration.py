"""Migration 0007 types plans of the first JSON format and reads what follows a success from `after`.

The first format says `install` for a web server; migration 0010 renames the keys.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from migrations.unsquashed.json_keys import renamed
from panel.deployments.models import OnSuccess
from panel.deployments.plan import FileAction, FileRecord, PlanFile, PlanSite, PlanWarning, plan_from_json, plan_to_json

migration = import_module("migrations.unsquashed.deployments.0007_typed_plan")
keys = import_module("migrations.unsquashed.deployments.0010_web_server_keys")

OLD: dict[str, Any] = {
    "sites": [{"id": 1, "name": "shop", "install": 7, "number": None, "previous": 2, "unknown": 1}],
    "installs": [7],
    "files": [{"path": "/etc/a.conf", "site": "shop", "install": 7, "action": "put", "mode": 420, "expect": None}],
    "warnings": [{"site": "shop", "where": "", "text": "kept", "nearest": ""}],
    "drifted": ["/etc/a.conf"],
    "checked": False,
    "unchecked": "web-1 does not answer.",
    "after": {"main": {"install": 7, "files": [{"path": "/etc/nginx.conf", "mode": 420}]}},
}


def test_plan_migration_keeps_every_part_of_an_old_plan() -> None:
    plan = plan_from_json(renamed(migration._typed(OLD), keys.NAMES))
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
        ({"install": 7, "then": ["x"]}, OnSuccess.MOVE),
        ({"waits_for": "x"}, OnSuccess.NOTHING),
        (OLD["after"], OnSuccess.MAIN),
    ],
)
def test_plan_migration_reads_what_follows_success(after: dict[str, Any], expected: OnSuccess) -> None:
    assert migration._on_success(after) == expected
