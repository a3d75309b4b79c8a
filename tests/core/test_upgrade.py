"""Upgrades of a panel's database: every row of an earlier version is there afterwards, under the names of this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection

from panel.core.management.commands.migrate import unsquashed

NAME = f"paddock_upgrade_{os.getpid()}"
RENAMED = {
    "deployments.InstallState": "deployments.WebServerState",
    "hosts.EngineInstall": "hosts.WebServer",
    "hosts.HostOperation": "hosts.HostJob",
    "notices.Notices": "alerts.AlertMail",
    "notices.Told": "alerts.SentAlert",
    "trials.Contender": "comparisons.Contender",
    "trials.Trial": "comparisons.Comparison",
}


@pytest.fixture
def environment(db: None, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What a process of the panel needs to work on an empty database of the kind that the tests run on."""
    own = {**os.environ, "PADDOCK_HOME": str(tmp_path)}
    if connection.vendor == "sqlite":
        yield own
        return
    with connection.creation._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {NAME}")
    base, _, _ = os.environ["PADDOCK_DATABASE_URL"].rpartition("/")
    yield own | {"PADDOCK_DATABASE_URL": f"{base}/{NAME}"}
    with connection.creation._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {NAME}")


def output_of(environment: dict[str, str], *argv: str) -> str:
    done = subprocess.run([sys.executable, *argv], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def upgraded(environment: dict[str, str], version: str, look: str) -> tuple[dict[str, int], dict[str, Any]]:
    """Rows by model before the upgrade from `version`, and what is there afterwards."""
    before = json.loads(output_of(environment, "-m", "tests.support.upgrading", version))["rows"]
    output_of(environment, "manage.py", "migrate", "-v", "0")
    return before, json.loads(output_of(environment, "-m", "tests.support.upgrading", look))


def test_app_newer_than_chain_is_left_out_of_it(settings: LazySettings) -> None:
    settings.MIGRATION_MODULES = {"hosts": "migrations.hosts", "newer": "migrations.newer"}
    with unsquashed():
        assert settings.MIGRATION_MODULES == {"hosts": "migrations.unsquashed.hosts", "newer": None}
    assert settings.MIGRATION_MODULES["hosts"] == "migrations.hosts"


def test_upgrade_keeps_every_row_of_version_before_squash(environment: dict[str, str]) -> None:
    before, found = upgraded(environment, "last", "count")
    assert len(before) > 40 and {label: found["rows"][label] for label in before} == before


def test_upgrade_keeps_every_row_of_first_version(environment: dict[str, str]) -> None:
    before, found = upgraded(environment, "first", "read")
    after = {label: found["rows"].get(RENAMED.get(label, label)) for label in before}
    assert len(before) > 40 and after == before
    assert found["values"] == {
        "web server": ["own", 1],
        "site has one": 0,
        "state": True,
        "plan": [[1], 1, "nginx on web-1"],
        "job": {"web_server": 1, "action": "stop"},
        "disabled": [1, None],
        "test bed": [{"testbed": {"suite": "php"}}, {"testbeds": {"web-1": {}}}],
        "setups": [{"slug": "nginx", "web_server": 1}],
        "audit": ["site.web_server", {"web_server": 1}],
        "comparison": [True, "deployed"],
        "alerts": [1, "unreachable:web-1", True],
        "mails": True,
    }
