"""Reading accounts."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, QuerySet
from kombu.exceptions import OperationalError

from panel.accounts.models import ApiToken, Team, User
from panel.celery import app as celery

LOAD_TOOLS = {"ab": "apache2-utils", "h2load": "nghttp2-client", "wrk": "wrk", "siege": "siege"}
LOW_DISK_BYTES = 1 << 30


def user_list() -> QuerySet[User]:
    return User.objects.prefetch_related("teams").order_by("username")


def team_list() -> QuerySet[Team]:
    return Team.objects.annotate(
        member_count=Count("members", distinct=True), site_count=Count("sites", distinct=True)
    ).order_by("name")


def token_list(user: User) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(user=user).order_by("-created_at")


@dataclass(frozen=True)
class Check:
    """One line of the self-check. `advice` says what to do when it is not well."""

    name: str
    state: Literal["ok", "warn", "bad"]
    found: str
    advice: str = ""


def self_check() -> list[Check]:
    """What the panel needs to work on this machine, looked at now; takes up to about a second."""
    return [_database(), _workers(), _native_server(), *_tools(), _disk()]


def _database() -> Check:
    executor = MigrationExecutor(connection)
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    name = "PostgreSQL" if connection.vendor == "postgresql" else "SQLite"
    if missing:
        return Check("Database", "bad", f"{name}; {missing} migrations are missing", "Run: manage.py migrate")
    return Check("Database", "ok", f"{name}; its tables are up to date")


def _workers() -> Check:
    advice = "Start one: celery -A panel worker. Until then deployments and benchmarks wait in their queue."
    try:
        answers = celery.control.ping(timeout=1.0, limit=1)
    except (OperationalError, OSError) as error:
        return Check(
            "Worker", "bad", f"The queue cannot be reached: {error}", "Check PADDOCK_REDIS_URL, then start it."
        )
    if not answers:
        return Check("Worker", "bad", "No worker answered within a second", advice)
    return Check("Worker", "ok", f"{next(iter(answers[0]))} answers")


def _native_server() -> Check:
    binary = Path(settings.GALLOP_BINARY)
    if binary.is_file():
        return Check("gallop, the bundled web server", "ok", str(binary))
    advice = "Build it: cargo build --release in native/. Hosts with nginx, Apache or OpenLiteSpeed work without."
    return Check("gallop, the bundled web server", "warn", f"{binary} is not there", advice)


def _tools() -> list[Check]:
    found = {tool: shutil.which(tool) for tool in LOAD_TOOLS}
    missing = [tool for tool, path in found.items() if not path]
    present = ", ".join(tool for tool, path in found.items() if path) or "none"
    if not missing:
        return [Check("Load tools", "ok", present)]
    packages = " ".join(LOAD_TOOLS[tool] for tool in missing)
    return [
        Check("Load tools", "warn", f"{present}; missing: {', '.join(missing)}", f"Install: apt install {packages}")
    ]


def _disk() -> Check:
    free = shutil.disk_usage(settings.HOME).free
    found = f"{free / (1 << 30):.1f} GiB free below {settings.HOME}"
    if free < LOW_DISK_BYTES:
        return Check("Disk", "bad", found, "Make room: revisions, benchmark output and the database are kept there.")
    return Check("Disk", "ok", found)
