"""Model of imported configurations."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.fields import EncryptedTextField
from panel.core.models import BaseModel
from panel.hosts.models import WebServer


class ImportSource(models.TextChoices):
    HOST = "host", _("Read from the host")
    UPLOAD = "upload", _("Uploaded archive")


class Import(BaseModel):
    """An imported configuration of a web server.

    `content` is JSON {"report": imports.report.Report, "files": {path: SourceFile}}; encrypted, because configurations
    contain passwords. `adopted` maps names in the report to the ids of the created sites.
    """

    uuid = models.UUIDField(default=uuid4, unique=True, editable=False)
    web_server = models.ForeignKey(WebServer, on_delete=models.CASCADE, related_name="imports")
    source = models.CharField(max_length=8, choices=ImportSource.choices)
    filename = models.CharField(max_length=200, blank=True)  # of the upload
    content = EncryptedTextField()
    sites_found = models.PositiveIntegerField(default=0)
    faults_found = models.PositiveIntegerField(default=0)
    adopted = models.JSONField(default=dict)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.web_server}: {self.get_source_display()}"
