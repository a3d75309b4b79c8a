"""Jobs: work requested by a user or a schedule and carried out by a worker.

Every kind of job is a row first, and the row holds the truth (docs/decisions/0002-queue.md). A service commits it as
`queued`; a worker claims it by a conditional update, keeps its heartbeat, and ends it (hosts/claims.py).
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar
from uuid import uuid4

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.models import BaseModel


class JobStatus(models.TextChoices):
    """The states of every kind of job; the last three are final."""

    QUEUED = "queued", _("Queued")
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


class Job(BaseModel):
    """The fields of all kinds of jobs: state, owner, heartbeat, and requester.

    A kind with more states than `JobStatus` overrides `status`; `queued` and `running` have the same meaning in each.
    """

    # After this the heartbeat stops, so the job counts as one of a dead worker (docs/decisions/0002-queue.md).
    time_limit: ClassVar[timedelta] = timedelta(hours=2)

    uuid = models.UUIDField(default=uuid4, unique=True, editable=False)
    status = models.CharField(max_length=12, choices=JobStatus.choices, default=JobStatus.QUEUED, db_index=True)
    error = models.TextField(blank=True)  # why the job failed, in words for the person who asked for it
    progress = models.CharField(max_length=200, blank=True)  # current action, or the reason for waiting
    cancel_requested = models.BooleanField(default=False)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    claimed_by = models.CharField(max_length=120, blank=True)  # core.owners.Owner of the worker, and its claim token
    heartbeat_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
