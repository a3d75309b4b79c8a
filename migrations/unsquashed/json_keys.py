"""Renaming keys in JSON that the database holds, for migrations."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import Model, TextField
from django.db.models.functions import Cast

BATCH = 200  # rows held in memory at a time


def renamed(value: Any, names: dict[str, str]) -> Any:
    """The value with its keys renamed at every depth."""
    if isinstance(value, dict):
        return {names.get(key, key): renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    return value


def rename_keys(model: type[Model], field: str, names: dict[str, str]) -> None:
    """Rename keys in the JSON of one field. Reads it as text, since a typed field may know the new keys only."""
    manager = model._default_manager
    rows = manager.annotate(text=Cast(field, TextField())).order_by("pk").values_list("pk", "text")
    batch = list(rows[:BATCH])
    while batch:
        for pk, text in batch:
            if text and any(f'"{name}"' in text for name in names):
                manager.filter(pk=pk).update(**{field: renamed(json.loads(text), names)})
        batch = list(rows.filter(pk__gt=batch[-1][0])[:BATCH])
