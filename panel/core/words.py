"""Error messages of models that name a valid value, in place of Django's."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext as _

Found = dict[str, list[ValidationError]]


def limits(field: models.Field[Any, Any]) -> str:
    """Describe the numbers that a model field accepts, by its validators and the limits of the database column."""
    low = [check.limit_value for check in field.validators if isinstance(check, MinValueValidator)]
    high = [check.limit_value for check in field.validators if isinstance(check, MaxValueValidator)]
    is_whole = isinstance(field, models.IntegerField)
    return number_between(max(low, default=None), min(high, default=None), is_whole=is_whole)


def number_between(low: float | None, high: float | None, *, is_whole: bool) -> str:
    """Return the error message for a number that is not from `low` to `high`; None means no limit.

    Upper limits of database columns are left out, because they are far above any sensible value.
    """
    high = None if high is not None and high >= 2**31 - 1 else high
    if low is None and high is None:
        return _("Enter a whole number.") if is_whole else _("Enter a number.")
    limits = {"low": low, "high": high}
    if high is None:
        text = _("Enter a whole number of at least %(low)s.") if is_whole else _("Enter a number of at least %(low)s.")
    elif low is None:
        text = _("Enter a whole number of at most %(high)s.") if is_whole else _("Enter a number of at most %(high)s.")
    elif is_whole:
        text = _("Enter a whole number from %(low)s to %(high)s.")
    else:
        text = _("Enter a number from %(low)s to %(high)s.")
    return text % limits


def _choices(field: models.Field[Any, Any], value: object) -> str:
    known = ", ".join(str(key) or '""' for key, _label in field.flatchoices)
    return _("“%(value)s” is not valid. Choose one of: %(known)s.") % {"value": value, "known": known}


def _text(field: models.Field[Any, Any], error: ValidationError, value: object) -> str | None:
    """Return the panel's message in place of Django's message for `error`; None if the panel has no message
    of its own.
    """
    is_number = isinstance(field, models.IntegerField)
    if error.code in ("min_value", "max_value") or (is_number and error.code == "invalid"):
        return limits(field)
    if error.code == "invalid_choice" and field.choices:
        return _choices(field, value)
    if error.code == "max_length":
        words = {"limit": field.max_length, "length": len(str(value))}
        return _("Use at most %(limit)s characters; this value has %(length)s.") % words
    if error.code in ("blank", "null"):
        return _("This field must not be empty.")
    return None


def of_fields(instance: models.Model, found: Found) -> Found:
    """Replace Django's messages by the panel's own in the errors of single fields (field name -> errors), without
    duplicates.
    """
    said: Found = {}
    for name, errors in found.items():
        field = instance._meta.get_field(name)
        assert isinstance(field, models.Field)
        value = getattr(instance, field.attname)
        if isinstance(field, models.SlugField) and len(errors) > 1:
            # Django's general slug message is less precise than the panel's own.
            errors = [error for error in errors if error.code != "invalid"]
        texts = {_text(field, error, value) or text: error.code for error in errors for text in error.messages}
        said[name] = [ValidationError(text, code=code) for text, code in texts.items()]
    return said


def of_uniqueness(found: Found) -> Found:
    """Assign an error about fields that must be unique together to the last of these fields.

    Models list the field that distinguishes the object last, for example the name after the site.
    """
    said: Found = {}
    for name, errors in found.items():
        for error in errors:
            fields = (getattr(error, "params", None) or {}).get("unique_check", ())
            place = fields[-1] if fields and name == NON_FIELD_ERRORS else name
            said.setdefault(place, []).append(error)
    return said


def is_only_empty(found: Found) -> bool:
    """Return whether all errors are about missing values."""
    return all(error.code == "blank" for errors in found.values() for error in errors)


def not_unique(instance: models.Model, fields: tuple[str, ...]) -> str:
    kind = instance._meta.verbose_name
    value = getattr(instance, fields[-1])
    if len(fields) == 1:
        return _("A %(kind)s with this %(field)s already exists: “%(value)s”. Choose another value.") % {
            "kind": kind,
            "field": instance._meta.get_field(fields[0]).verbose_name,  # type: ignore[union-attr]
            "value": value,
        }
    return _("“%(value)s” appears twice. Change or remove one of the two.") % {"value": value}
