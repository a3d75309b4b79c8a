"""What every stored object has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models


class BaseModel(models.Model):
    """`row_version` counts saved changes; it is the weak ETag of the API and guards against lost updates."""

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    row_version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        abstract = True

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        if not self._state.adding:
            self.row_version += 1
            if update_fields is not None:
                update_fields = {*update_fields, "row_version", "updated_at"}
        super().save(*args, update_fields=update_fields, **kwargs)
