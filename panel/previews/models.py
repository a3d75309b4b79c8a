"""Model of previews: the differences that visitors would notice after a plan, observed on private copies beforehand."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property

from django.db import models
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from panel.core.jobs import Job, JobStatus
from panel.deployments.models import Deployment, DeploymentKind
from panel.previews import results

KINDS = (DeploymentKind.DEPLOY, DeploymentKind.ROLLBACK, DeploymentKind.MOVE)  # of plans that can be previewed
UNFINISHED = (JobStatus.QUEUED, JobStatus.RUNNING)


class Preview(Job):
    """A preview of one plan. `sites` is the list of results of the plan's sites (results.SiteResult as JSON)."""

    time_limit = timedelta(minutes=30)

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="previews")
    sites = models.JSONField(default=list)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return _("Preview of a plan for %s") % self.deployment.host.name

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED

    @cached_property
    def results(self) -> list[results.SiteResult]:
        return results.from_json(self.sites)

    @property
    def count(self) -> int:
        """Number of requests that get different responses from the two versions."""
        return sum(result.count for result in self.results)

    @property
    def summary(self) -> str:
        """The result in one sentence. Without a result: the error, or the title of the preview if no error occurred."""
        if self.status != JobStatus.SUCCEEDED:
            return self.error or _("Preview of the responses")
        if all(result.error for result in self.results):
            return _("Paddock could not compare any site.")
        words = ngettext(
            "%(count)s of %(asked)s requests got a different response.",
            "%(count)s of %(asked)s requests got a different response.",
            self.count,
        )
        return words % {"count": f"{self.count:,}", "asked": f"{self.asked:,}"}

    @property
    def asked(self) -> int:
        return sum(result.asked for result in self.results)
