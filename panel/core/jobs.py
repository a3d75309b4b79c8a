"""Jobs: work that a person or a schedule asks for and that a worker carries out later.

Every kind of job is a row first, and the row is the truth (docs/decisions/0002-queue.md). A service commits it as
`queued`; a worker claims it by a conditional update, keeps its heartbeat, and ends it (hosts/claims.py).
"""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.models import BaseModel


class JobStatus(models.TextChoices):
    """The states that every kind of job has; the last three end it."""

    QUEUED = "queued", _("Queued")
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


class Job(BaseModel):
    """The part that all kinds of jobs share: state, owner, heartbeat, and who asked for it.

    A kind with more states than `JobStatus` declares `status` anew; `queued` and `running` mean the same in each.
    """

    uuid = models.UUIDField(default=uuid4, unique=True, editable=False)
    status = models.CharField(max_length=12, choices=JobStatus.choices, default=JobStatus.QUEUED, db_index=True)
    error = models.TextField(blank=True)  # why the job failed, in words for the person who asked for it
    progress = models.CharField(max_length=200, blank=True)  # what the job does or waits for now
    cancel_requested = models.BooleanField(default=False)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    claimed_by = models.CharField(max_length=120, blank=True)  # core.owners.Owner of the worker, and its claim
    heartbeat_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
