"""The one exception for what a person or program outside can act on."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import DataError

NULL_WORDS = "The request contains a null character. Remove it and try again."


class ApplicationError(Exception):
    """Something that was asked for cannot be done; nothing was changed.

    `message` names the object, what is wrong and what to do. `field` is the form field or JSON member at fault,
    `code` a stable word for programs, `retry` whether the same call may succeed later.
    """

    def __init__(self, message: str, *, field: str = "", code: str = "invalid", retry: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.code = code
        self.retry = retry


class Conflict(ApplicationError):
    """The object changed, or is being changed, since the caller looked at it."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message, field=field, code="conflict", retry=True)


def words_of(error: Exception) -> str:
    """What it says to a person, in one line, whichever kind a service raised."""
    if isinstance(error, ApplicationError):
        return error.message
    return " ".join(error.messages) if isinstance(error, ValidationError) else str(error)


def is_null_refused(error: Exception) -> bool:
    """Whether a query was not sent because of a null character in one of its texts: PostgreSQL takes none, and says so
    at whichever query meets it first."""
    return isinstance(error, DataError) and "NUL (0x00)" in str(error)
