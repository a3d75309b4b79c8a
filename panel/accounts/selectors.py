"""Reading accounts."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from panel.accounts.models import ApiToken, Team, User
from panel.celery import app as celery

LOAD_TOOLS = {"ab": "apache2-utils", "h2load": "nghttp2-client", "wrk": "wrk", "siege": "siege"}
LOW_DISK_BYTES = 1 << 30
SCHEDULER_SILENT_AFTER = dt.timedelta(minutes=2)


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


def self_check(*, looked_at: dt.datetime | None) -> list[Check]:
    """What the panel needs to work on this machine, looked at now; takes up to about a second.

    `looked_at`: when the scheduler's errand of looking at schedules was done last, by a worker.
    """
    worker = _workers()
    scheduler = [_scheduler(looked_at)] if worker.state == "ok" else []  # without a worker nobody can tell
    return [_database(), worker, *scheduler, _native_server(), *_tools(), *_mail(), _disk()]


def _database() -> Check:
    executor = MigrationExecutor(connection)
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    name = "PostgreSQL" if connection.vendor == "postgresql" else "SQLite"
    if missing:
        return Check("Database", "bad", f"{name}; {missing} migrations are missing", "Run: manage.py migrate")
    return Check("Database", "ok", f"{name}; its tables are up to date")


def _workers() -> Check:
    advice = "Start one: celery -A panel worker. Until then deployments and benchmarks wait in their queue."
    broker: Any = celery.connection_for_write()  # whose library has errors of its own
    try:
        answers = celery.control.ping(timeout=1.0, limit=1)
    except (OperationalError, OSError, *broker.connection_errors, *broker.channel_errors) as error:
        what = "Start Redis, or put right PADDOCK_REDIS_URL. Until then what is asked for waits."
        return Check("Worker", "bad", f"The queue cannot be reached: {error}", what)
    if not answers:
        return Check("Worker", "bad", "No worker answered within a second", advice)
    return Check("Worker", "ok", f"{next(iter(answers[0]))} answers")


def _scheduler(looked_at: dt.datetime | None) -> Check:
    advice = "Start one: celery -A panel beat. Until then no schedule begins, and nobody looks for drift."
    if looked_at is None:
        return Check("Scheduler", "warn", "It has not asked for anything yet", f"Check again in a minute. {advice}")
    if timezone.now() - looked_at > SCHEDULER_SILENT_AFTER:
        return Check("Scheduler", "bad", f"Nothing was asked for since {looked_at:%Y-%m-%d %H:%M:%S} UTC", advice)
    return Check("Scheduler", "ok", "Asked for something within the last minutes")


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


def _mail() -> list[Check]:
    """Only where somebody waits for mails."""
    if not User.objects.filter(is_active=True, mail_notices=True).exists():
        return []
    if settings.EMAIL_HOST:
        return [Check("Mail", "ok", f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}")]
    return [
        Check("Mail", "warn", "Accounts ask for mails; no mail server is set", "Give PADDOCK_SMTP_HOST to the worker.")
    ]


def _disk() -> Check:
    free = shutil.disk_usage(settings.HOME).free
    found = f"{free / (1 << 30):.1f} GiB free below {settings.HOME}"
    if free < LOW_DISK_BYTES:
        return Check("Disk", "bad", found, "Make room: revisions, benchmark output and the database are kept there.")
    return Check("Disk", "ok", found)
