"""`manage.py rotate_secrets`: encrypt all stored secrets again with the first key of PADDOCK_ENCRYPTION_KEYS."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction
from django.db.models import Model

from panel.core.fields import encrypted_fields


class Command(BaseCommand):
    help = (
        "Re-encrypt all stored secrets with the first key in PADDOCK_ENCRYPTION_KEYS. Add the new key "
        "at the start, run this command, then remove the old key. The command is safe to repeat after "
        "an interruption."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        for model, names in encrypted_fields():
            count = 0
            for pk in list(model._default_manager.values_list("pk", flat=True)):
                count += self._rotate(model, pk, names)
            self.stdout.write(f"{model._meta.label}: {count} rows")

    def _rotate(self, model: type[Model], pk: Any, names: list[str]) -> int:
        """Encrypt one row's secrets again, under a lock, so that no concurrent change is lost.

        Return 1, or 0 if the row was deleted meanwhile.
        """
        with transaction.atomic():
            row = model._default_manager.select_for_update().filter(pk=pk).only("pk", *names).first()
            if row is None:
                return 0
            # update(), not save(): the content does not change, so the version must stay.
            return model._default_manager.filter(pk=pk).update(**{name: getattr(row, name) for name in names})
