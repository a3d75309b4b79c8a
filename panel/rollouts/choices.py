"""States of rollouts and of their waves, and requests of people."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class RolloutStatus(models.TextChoices):
    QUEUED = "queued", _("In progress")  # waits for a worker to take the next step
    RUNNING = "running", _("In progress")  # a worker is taking a step
    PAUSED = "paused", _("Paused")
    WAITING = "waiting", _("Waiting for approval")
    SUCCEEDED = "succeeded", _("Done")
    UNDONE = "undone", _("Undone")
    FAILED = "failed", _("Not completely undone")
    CANCELLED = "cancelled", _("Ended early")


UNDER_WAY = (RolloutStatus.QUEUED, RolloutStatus.RUNNING, RolloutStatus.PAUSED, RolloutStatus.WAITING)


class WaveStatus(models.TextChoices):
    WAITING = "waiting", _("Waiting")
    DEPLOYING = "running", _("Deploying")
    OBSERVING = "observing", _("Observing")
    APPROVAL = "approval", _("Waiting for approval")
    PASSED = "succeeded", _("Passed")
    FAILED = "failed", _("Failed")
    UNDONE = "undone", _("Undone")
    CANCELLED = "cancelled", _("Not started")


class Wish(models.TextChoices):
    """Request of a person to a rollout, which the worker follows at the next step."""

    NONE = "", _("None")
    PAUSE = "pause", _("Pause")
    UNDO = "undo", _("Undo everything")
    END = "end", _("End here")
