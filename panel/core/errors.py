"""Exceptions for errors that users and API clients can act on."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import DataError

NULL_WORDS = "The request contains a null character. Remove it and try again."


class ApplicationError(Exception):
    """Raised if an action is not possible; nothing was changed.

    `message` names the object, the problem and the solution. `field` is the form or JSON field with the error, `code` a
    stable word for programs, `retry` whether the same call may succeed later.
    """

    def __init__(self, message: str, *, field: str = "", code: str = "invalid", retry: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.code = code
        self.retry = retry


class Conflict(ApplicationError):
    """Raised if the object was changed, or is being changed, by someone else."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message, field=field, code="conflict", retry=True)


def words_of(error: Exception) -> str:
    """Return the message of an ApplicationError, ValidationError or other exception as one text for users."""
    if isinstance(error, ApplicationError):
        return error.message
    return " ".join(error.messages) if isinstance(error, ValidationError) else str(error)


def is_null_refused(error: Exception) -> bool:
    """Return whether a query failed because a text contains a null character, which PostgreSQL does not support."""
    return isinstance(error, DataError) and "NUL (0x00)" in str(error)
