"""Jobs: work that a user or a schedule requests and a worker executes.

Every job is a row first, and the row holds its state (docs/decisions/0002-queue.md). A service commits the row as
`queued`; a worker claims it by a conditional update, keeps its heartbeat, and ends it (core/claims.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID, uuid4

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.models import BaseModel


class JobStatus(models.TextChoices):
    """States of every kind of job; the last three are final."""

    QUEUED = "queued", _("Queued")
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


class Job(BaseModel):
    """Base model of all kinds of jobs: state, owner, heartbeat, and requester.

    A kind with more states than `JobStatus` overrides `status`; `queued` and `running` have the same meaning in each.
    """

    # After this the heartbeat stops, so the job counts as one of a dead worker (docs/decisions/0002-queue.md).
    time_limit: ClassVar[timedelta] = timedelta(hours=2)
    # Condition of queued rows that a worker of this release can execute.
    claimable: ClassVar[models.Q] = models.Q()

    uuid = models.UUIDField(default=uuid4, unique=True, editable=False)
    status = models.CharField(max_length=12, choices=JobStatus.choices, default=JobStatus.QUEUED, db_index=True)
    error = models.TextField(blank=True)  # reason of the failure, for the person who requested the job
    progress = models.CharField(max_length=200, blank=True)  # current action, or the reason for waiting
    cancel_requested = models.BooleanField(default=False)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    claimed_by = models.CharField(max_length=120, blank=True)  # core.owners.Owner of the worker, and its claim token
    heartbeat_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


@dataclass(frozen=True)
class JobShown:
    """Content of a job's page, the same for every kind (templates/components/job.html).

    `words` is a sentence about the work, the reason for waiting, or the result; `done` of `total` is the progress under
    `progress_label`. `error` is shown under `error_title`, `log` under a separate heading. With `cancel_url`, the page
    has a cancel button.
    """

    uuid: UUID
    title: str
    status: str
    status_words: str
    words: str
    is_live: bool
    owner: str
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    done: int = 0
    total: int = 0
    progress_label: str = ""
    error: str = ""
    error_title: str = ""
    log: str = ""
    cancel_url: str = ""
    cancel_label: str = ""


@dataclass(frozen=True)
class JobKind:
    """One kind of job: functions to read, show and cancel its rows. Apps register their kinds with `kind_add`.

    `find` returns the row with a UUID if the user may read it. `load` returns the row without a check of
    permissions; event streams, which read a row often, check permissions with `find`. `mark` returns another value
    whenever the page has something new, as long as `is_live`. `region` is the template of the part of the page that
    changes, and `context` its variables in addition to `job`. `page` is the URL of the job's own page, "" if it has
    only the common page.
    """

    name: str
    find: Callable[[Any, UUID], Any]
    load: Callable[[UUID], Any]
    mark: Callable[[Any], object]
    is_live: Callable[[Any], bool]
    shown: Callable[[Any], JobShown]
    cancel: Callable[[Any, Any], object] | None = None
    may_cancel: Callable[[Any, Any], bool] = lambda user, row: False
    region: Callable[[Any], str] = lambda row: "components/job.html"
    context: Callable[[Any], Mapping[str, object]] = lambda row: {}
    page: Callable[[Any], str] = lambda row: ""


KINDS: dict[str, JobKind] = {}


def kind_add(kind: JobKind) -> None:
    KINDS[kind.name] = kind


def job_found(user: object, uuid: UUID) -> tuple[JobKind, Any] | None:
    """Return (kind, row) of a job. None if the job does not exist, or if the user may not read the job."""
    for kind in KINDS.values():
        row = kind.find(user, uuid)
        if row is not None:
            return kind, row
    return None


def job_loaded(uuid: UUID) -> tuple[JobKind, Any] | None:
    """Return (kind, row) of a job, without a check of permissions. None if the job does not exist."""
    for kind in KINDS.values():
        row = kind.load(uuid)
        if row is not None:
            return kind, row
    return None
