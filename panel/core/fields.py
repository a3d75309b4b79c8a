"""Model fields that several apps use."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.db.models.query_utils import DeferredAttribute


@lru_cache(maxsize=4)
def _ring(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def key_ring() -> MultiFernet:
    """Return the encryption keys of stored secrets: the first key encrypts, all keys decrypt."""
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
            "A stored secret cannot be decrypted: PADDOCK_ENCRYPTION_KEYS does not contain the key that "
            "encrypted it. Add the key to PADDOCK_ENCRYPTION_KEYS."
        ) from error


if TYPE_CHECKING:
    _TextField = models.TextField[str, str]
else:
    _TextField = models.TextField


class _Sealed:
    """Encrypted value of a model field that no code has accessed yet.
    Decrypting a host's key costs more than loading the host's row, and most rows are loaded for other fields.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class _Opening(DeferredAttribute):
    """Attribute descriptor that decrypts the value on first access."""

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        if instance is None:
            return self
        name = self.field.attname
        value = instance.__dict__[name] if name in instance.__dict__ else super().__get__(instance, cls)
        if isinstance(value, _Sealed):
            value = instance.__dict__[name] = decrypt(value.text)
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class EncryptedTextField(_TextField):
    """Text field that is encrypted in the database and plain in Python.

    It cannot be searched. Only model instances decrypt it; `values()` returns the encrypted text.
    """

    descriptor_class = _Opening

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, _Sealed):
            return value.text
        return None if value is None else encrypt(str(value))

    def from_db_value(self, value: str | None, expression: object, connection: object) -> _Sealed | str | None:
        return _Sealed(value) if value else value


def encrypted_fields() -> list[tuple[type[models.Model], list[str]]]:
    """Return all models with encrypted fields: [(model, [names of its encrypted fields])]."""
    found = []
    for model in apps.get_models():
        names = [field.name for field in model._meta.local_fields if isinstance(field, EncryptedTextField)]
        if names:
            found.append((model, names))
    return found
