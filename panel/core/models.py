"""What every stored object has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models
from django.db.models import F


class BaseModel(models.Model):
    """`row_version` counts saved changes; it is the weak ETag of the API and guards against lost updates."""

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    row_version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        abstract = True

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        if self._state.adding:
            super().save(*args, update_fields=update_fields, **kwargs)
            return
        known = self.row_version
        # Counted by the database: a stale copy must not set the count back.
        self.row_version = F("row_version") + 1
        if update_fields is not None:
            update_fields = {*update_fields, "row_version", "updated_at"}
        try:
            super().save(*args, update_fields=update_fields, **kwargs)
        except BaseException:
            self.row_version = known
            raise
        self.refresh_from_db(fields=["row_version"])
