"""Models of content: releases of a site, and their publications on its hosts."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.core.fields import EncryptedTextField
from panel.core.jobs import Job, JobStatus
from panel.hosts.models import WebServer
from panel.websites.models import Site

UNFINISHED = (JobStatus.QUEUED, JobStatus.RUNNING)


class Source(models.TextChoices):
    ARCHIVE = "archive", gettext_lazy("Uploaded archive")
    GIT = "git", gettext_lazy("Git repository")


class Release(models.Model):
    """Files of a site at one time, stored as parts of a gzip-compressed tar archive (archives.py)."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="releases")
    number = models.PositiveIntegerField()
    source = models.CharField(max_length=8, choices=Source.choices)
    origin = models.CharField(max_length=500)  # name of the archive, or URL of the repository
    revision = models.CharField(max_length=200, blank=True)  # git: the branch or tag, and the commit
    folder = models.CharField(max_length=300, blank=True)  # folder of the archive or repository whose files it has
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField()  # bytes of the compressed archive
    unpacked_size = models.PositiveBigIntegerField()
    file_count = models.PositiveIntegerField()
    notes = models.JSONField(default=list)  # sentences about files that should not be public
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["site", "number"], name="publishing_release_number")]

    def __str__(self) -> str:
        return _("Release %(number)d of %(site)s") % {"number": self.number, "site": self.site.name}


class ReleasePart(models.Model):
    """One mebibyte of a release's archive; in the database, so that workers on all hosts of the panel can read it."""

    release = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="parts")
    number = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["release", "number"], name="publishing_part_number")]

    def __str__(self) -> str:
        return f"{self.release}, {self.number}"


class Publication(Job):
    """Job that publishes a release on all hosts of a site. A publication from git has no release until it is fetched.

    `above` selects the folder that is replaced: 0 for the document root, 1 for its parent folder, for example for
    an application whose document root is one of its folders. `keep` are paths in the replaced folder that stay,
    such as uploads. `targets` is the outcome on each host (execution.Target as JSON).
    """

    time_limit = timedelta(minutes=30)

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="publications")
    release = models.ForeignKey(Release, null=True, on_delete=models.SET_NULL, related_name="publications")
    git_url = models.CharField(max_length=500, blank=True)
    git_ref = models.CharField(max_length=200, blank=True)
    git_token = EncryptedTextField(blank=True, default="", editable=False)  # deleted when the job ends
    folder = models.CharField(max_length=300, blank=True)  # folder of the repository to publish
    above = models.PositiveSmallIntegerField(default=0)
    keep = models.JSONField(default=list)
    replace = models.BooleanField(default=False)  # also replace files that Paddock did not publish
    targets = models.JSONField(default=list)
    # set if the files are published only on the host of this web server, to which the site will move
    web_server = models.ForeignKey(WebServer, null=True, on_delete=models.CASCADE, related_name="+")

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return _("Publication of %s") % self.site.name

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED
