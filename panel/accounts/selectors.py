"""Selectors of accounts, and the self-check of the panel's installation."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from panel.accounts.models import ApiToken, SavedView, Team, User
from panel.celery import app as celery
from panel.core.mail import server
from panel.core.queue import uses_redis
from panel.core.worker_presence import is_worker_present

LOAD_TOOLS = {"ab": "apache2-utils", "h2load": "nghttp2-client", "wrk": "wrk", "siege": "siege", "hey": "hey"}
LOW_DISK_BYTES = 1 << 30
SCHEDULER_SILENT_AFTER = dt.timedelta(minutes=2)


def user_list() -> QuerySet[User]:
    return User.objects.prefetch_related("teams").order_by("username")


def team_list() -> QuerySet[Team]:
    return Team.objects.annotate(
        member_count=Count("members", distinct=True), site_count=Count("sites", distinct=True)
    ).order_by("name")


def has_users() -> bool:
    """Return whether the first account exists, that is, whether the panel is set up."""
    return User.objects.exists()


def user_named(username: str) -> User | None:
    """Return the user with this name, ignoring upper and lower case; None if there is no such user."""
    try:
        return User.objects.get_by_natural_key(username)
    except User.DoesNotExist:
        return None


def active_user(pk: int) -> User | None:
    return User.objects.filter(pk=pk, is_active=True).first()


def saved_views_of(user: User | AnonymousUser) -> QuerySet[SavedView]:
    return SavedView.objects.filter(user=user.pk)


def token_list(user: User) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(user=user).order_by("-created_at")


@dataclass(frozen=True)
class Check:
    """One line of the self-check: the state of a part of the panel. `advice` tells how to solve a problem."""

    name: str
    state: Literal["ok", "warn", "bad"]
    found: str
    advice: str = ""


def self_check(*, looked_at: dt.datetime | None) -> list[Check]:
    """Check database, worker, scheduler, gallop, load tools, mail, and disk of the panel; takes up to a second.

    `looked_at` is the time at which the scheduler last looked for due schedules; None if never.
    """
    worker = _workers()
    scheduler = [_scheduler(looked_at)] if worker.state == "ok" else []  # unknown without a worker
    return [_database(), worker, *scheduler, _native_server(), *_tools(), *_mail(), _disk()]


def _database() -> Check:
    executor = MigrationExecutor(connection)
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    name = "PostgreSQL" if connection.vendor == "postgresql" else "SQLite"
    if missing:
        advice = f"Run: {settings.COMMAND} migrate"
        return Check("Database", "bad", f"{name}; {missing} migrations are not applied", advice)
    return Check("Database", "ok", f"{name}; all migrations are applied")


def _start(process: str) -> str:
    """Return the command that starts `process` of the panel ("worker" or "scheduler") on this installation."""
    if settings.COMMAND == "paddock":
        return f"systemctl start paddock-{process}"
    return f"celery -A panel {'beat' if process == 'scheduler' else process}"


def _workers() -> Check:
    advice = f"Start a worker: {_start('worker')}. Until then, deployments and benchmarks stay in the queue."
    if not uses_redis(celery):
        if is_worker_present(settings.HOME):
            return Check("Worker", "ok", "A worker runs")
        return Check("Worker", "bad", "No worker runs", advice)
    broker: Any = celery.connection_for_write()  # its library raises its own errors
    try:
        answers = celery.control.ping(timeout=1.0, limit=1)
    except (OperationalError, OSError, *broker.connection_errors, *broker.channel_errors) as error:
        what = "Start Redis or correct PADDOCK_REDIS_URL. Until then, new jobs do not start."
        return Check("Worker", "bad", f"The queue is not reachable: {error}", what)
    if not answers:
        return Check("Worker", "bad", "No worker responded within one second", advice)
    return Check("Worker", "ok", f"The worker {next(iter(answers[0]))} responds")


def _scheduler(looked_at: dt.datetime | None) -> Check:
    advice = f"Start the scheduler: {_start('scheduler')}. Until then, schedules and drift checks do not run."
    if looked_at is None:
        return Check(
            "Scheduler", "warn", "The scheduler has not started any job yet", f"Check again in a minute. {advice}"
        )
    if timezone.now() - looked_at > SCHEDULER_SILENT_AFTER:
        return Check(
            "Scheduler", "bad", f"The scheduler has been inactive since {looked_at:%Y-%m-%d %H:%M:%S} UTC", advice
        )
    return Check("Scheduler", "ok", "The scheduler was active within the last minutes")


def _native_server() -> Check:
    binary = Path(settings.GALLOP_BINARY)
    if binary.is_file():
        return Check("gallop, the bundled web server", "ok", str(binary))
    advice = (
        "Build gallop in native/ with: cargo build --release. Hosts with nginx, Apache, or OpenLiteSpeed work "
        "without gallop."
    )
    return Check("gallop, the bundled web server", "warn", f"{binary} does not exist", advice)


def _tools() -> list[Check]:
    found = {tool: shutil.which(tool) for tool in LOAD_TOOLS}
    missing = [tool for tool, path in found.items() if not path]
    present = ", ".join(tool for tool, path in found.items() if path) or "none"
    if not missing:
        return [Check("Load tools", "ok", present)]
    packages = " ".join(LOAD_TOOLS[tool] for tool in missing)
    return [
        Check(
            "Load tools",
            "warn",
            f"{present}; missing: {', '.join(missing)}",
            f"Install the missing load tools with: apt install {packages}",
        )
    ]


def _mail() -> list[Check]:
    """Return the line of the self-check about the mail server; [] if no active user gets email alerts."""
    if not User.objects.filter(is_active=True, mail_alerts=True).exists():
        return []
    found = server()
    if found is not None:
        return [Check("Mail", "ok", found.address)]
    return [
        Check(
            "Mail",
            "warn",
            "Users turned on email alerts, but no mail server is configured",
            "Set a mail server under Settings, Mail, or in PADDOCK_SMTP_HOST.",
        )
    ]


def _disk() -> Check:
    free = shutil.disk_usage(settings.HOME).free
    found = f"{free / (1 << 30):.1f} GiB free in {settings.HOME}"
    if free < LOW_DISK_BYTES:
        return Check(
            "Disk", "bad", found, "Free up disk space on the panel's host, because the panel stores its data there."
        )
    return Check("Disk", "ok", found)
