"""Models of server comparisons: the compared web servers, their response checks, and the run."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.benchmarks.models import Run
from panel.core.errors import ApplicationError
from panel.core.jobs import Job, JobStatus
from panel.deployments.models import Deployment
from panel.hosts.models import WebServer
from panel.websites.models import Site

UNDER_WAY = (JobStatus.QUEUED, JobStatus.RUNNING)


class ComparisonPhase(models.TextChoices):
    COPY = "copy", _("Copying the site to private ports")
    DEPLOY = "deploy", _("Deploying the copies")
    COMPARE = "compare", _("Comparing responses")
    MEASURE = "measure", _("Measuring")
    CLEAN = "clean", _("Removing the copies")


class Comparison(Job):
    """A server comparison: one site, copied to several web servers of its host and measured under the same load.
    `load` is a copy of the load: keyword arguments for `scenario_create` in panel/benchmarks.
    """

    time_limit = timedelta(hours=48)  # that of its run

    # Null: the site was deleted. The row must stay until its copies are removed.
    site = models.ForeignKey(Site, null=True, on_delete=models.SET_NULL, related_name="comparisons")
    load = models.JSONField()
    is_replay = models.BooleanField(default=False)  # the load came from the site's own access log
    # For a replay, in words: log lines that are not sent, and paths without a successful response.
    left_out = models.JSONField(default=list)
    phase = models.CharField(max_length=12, choices=ComparisonPhase.choices, default=ComparisonPhase.COPY)
    # Result, written before the copies are removed, so that a worker that only cleans up keeps it.
    outcome = models.CharField(max_length=12, choices=JobStatus.choices, blank=True)
    stopped_in = models.CharField(max_length=12, choices=ComparisonPhase.choices, blank=True)  # unless it succeeded
    remains = models.TextField(blank=True)  # copies that could not be removed yet, and the reasons, in words
    cleanings = models.PositiveIntegerField(default=0)  # number of failed attempts
    retry_at = models.DateTimeField(null=True)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="comparisons")
    switch = models.ForeignKey(Deployment, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.site.name if self.site else _('A deleted site')}: server comparison"

    @property
    def original(self) -> Site:
        """The compared site. Raises ApplicationError if the site was deleted."""
        if self.site is None:
            raise ApplicationError("The site was deleted.")
        return self.site

    @property
    def is_finished(self) -> bool:
        return self.status not in UNDER_WAY

    @property
    def is_live(self) -> bool:
        """Return whether the page of the comparison can still change.
        True until the comparison is finished, and also until the deployment that moves the site afterwards is finished.
        """
        return not self.is_finished or (self.switch is not None and not self.switch.is_finished)


class ContenderStatus(models.TextChoices):
    WAITING = "waiting", _("Waiting")
    DEPLOYED = "deployed", _("Deployed")
    REFUSED = "refused", _("Deployment failed")
    DIFFERENT = "different", _("Different responses")
    SAME = "same", _("Same responses")


class Contender(models.Model):
    """One web server of a comparison. The first is the web server that the site had when the comparison started. `copy`
    is set while the site's copy exists.
    """

    comparison = models.ForeignKey(Comparison, on_delete=models.CASCADE, related_name="contenders")
    position = models.PositiveIntegerField()
    web_server = models.ForeignKey(WebServer, null=True, on_delete=models.SET_NULL, related_name="+")
    label = models.CharField(max_length=200)
    copy = models.ForeignKey(Site, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    status = models.CharField(max_length=12, choices=ContenderStatus.choices, default=ContenderStatus.WAITING)
    detail = models.TextField(blank=True)  # why it was rejected, or how its responses differ
    # its server was started only for the copy, and must be stopped again
    was_stopped = models.BooleanField(default=False)

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["comparison", "position"], name="comparisons_contender_position")
        ]

    def __str__(self) -> str:
        return self.label
