"""What every stored object has."""

from __future__ import annotations

from django.db import models


class BaseModel(models.Model):
    """`row_version` counts saved changes; it is the weak ETag of the API and guards against lost updates."""

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    row_version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        abstract = True
