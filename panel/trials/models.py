"""A site tried on several servers of its host: who took part, what they answered, which run measured them."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.benchmarks.models import Run
from panel.core.errors import ApplicationError
from panel.core.models import BaseModel
from panel.deployments.models import Deployment
from panel.hosts.models import EngineInstall, JobStatus
from panel.websites.models import Site

UNDER_WAY = (JobStatus.QUEUED, JobStatus.RUNNING)


class TrialPhase(models.TextChoices):
    COPY = "copy", _("Copying the site to private ports")
    DEPLOY = "deploy", _("Putting the copies on their servers")
    COMPARE = "compare", _("Comparing their answers")
    MEASURE = "measure", _("Measuring")
    CLEAN = "clean", _("Taking the copies away")


class Trial(BaseModel):
    """`load` is what is put on the copies, as `benchmarks.services.scenario_create` takes it, frozen."""

    uuid = models.UUIDField(default=uuid4, unique=True, editable=False)
    # Null: it was deleted meanwhile. The copies are there still, so the row must stay until they are gone.
    site = models.ForeignKey(Site, null=True, on_delete=models.SET_NULL, related_name="trials")
    load = models.JSONField()
    is_replay = models.BooleanField(default=False)  # the load came from the site's own access log
    # Of a replay, in words: which lines of the log are not sent, and which paths the site does not answer now.
    left_out = models.JSONField(default=list)
    status = models.CharField(max_length=12, choices=JobStatus.choices, default=JobStatus.QUEUED, db_index=True)
    phase = models.CharField(max_length=12, choices=TrialPhase.choices, default=TrialPhase.COPY)
    error = models.TextField(blank=True)
    # How it ended, written before the copies are taken away: a worker that only has to clean up keeps it.
    outcome = models.CharField(max_length=12, choices=JobStatus.choices, blank=True)
    stopped_in = models.CharField(max_length=12, choices=TrialPhase.choices, blank=True)  # unless it succeeded
    remains = models.TextField(blank=True)  # copies that could not be taken away yet, and why, in words
    cleanings = models.PositiveIntegerField(default=0)  # how often that was tried in vain
    retry_at = models.DateTimeField(null=True)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="trials")
    switch = models.ForeignKey(Deployment, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    cancel_requested = models.BooleanField(default=False)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    claimed_by = models.CharField(max_length=120, blank=True)
    heartbeat_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.site.name if self.site else _('A deleted site')}: which server?"

    @property
    def original(self) -> Site:
        """ApplicationError when it was deleted."""
        if self.site is None:
            raise ApplicationError("The site was deleted meanwhile.")
        return self.site

    @property
    def is_finished(self) -> bool:
        return self.status not in UNDER_WAY

    @property
    def is_live(self) -> bool:
        """Whether its page changes by itself: it is under way, or the switch that followed from it is."""
        return not self.is_finished or (self.switch is not None and not self.switch.is_finished)


class ContenderStatus(models.TextChoices):
    WAITING = "waiting", _("Waiting")
    STANDING = "standing", _("In place")
    REFUSED = "refused", _("Could not be put up")
    DIFFERENT = "different", _("Answers differently")
    SAME = "same", _("Answers alike")


class Contender(models.Model):
    """One server in a trial; the first is the site's own. `copy` is there as long as the copy is."""

    trial = models.ForeignKey(Trial, on_delete=models.CASCADE, related_name="contenders")
    position = models.PositiveIntegerField()
    install = models.ForeignKey(EngineInstall, null=True, on_delete=models.SET_NULL, related_name="+")
    label = models.CharField(max_length=200)
    copy = models.ForeignKey(Site, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    status = models.CharField(max_length=12, choices=ContenderStatus.choices, default=ContenderStatus.WAITING)
    detail = models.TextField(blank=True)  # why it was refused, or what it answers differently
    was_stopped = models.BooleanField(default=False)  # its server ran only for the copy, and is to be stopped again

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["trial", "position"], name="trials_contender_position")]

    def __str__(self) -> str:
        return self.label
