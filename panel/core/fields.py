"""Model fields that several apps use."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models


@lru_cache(maxsize=4)
def _ring(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def key_ring() -> MultiFernet:
    """The keys that secrets at rest are encrypted with: the first writes, all of them read."""
    return _ring(tuple(settings.ENCRYPTION_KEYS))


def encrypt(value: str) -> str:
    return key_ring().encrypt(value.encode()).decode() if value else ""


def decrypt(value: str) -> str:
    if not value:
        return ""
    try:
        return key_ring().decrypt(value.encode()).decode()
    except InvalidToken as error:
        raise ImproperlyConfigured(
            "A stored secret cannot be decrypted: none of PADDOCK_ENCRYPTION_KEYS is the key it was written with."
        ) from error


if TYPE_CHECKING:
    _TextField = models.TextField[str, str]
else:
    _TextField = models.TextField


class EncryptedTextField(_TextField):
    """Text that is encrypted in the database and plain in Python. It cannot be searched."""

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else encrypt(str(value))

    def from_db_value(self, value: str | None, expression: object, connection: object) -> str | None:
        return None if value is None else decrypt(value)
