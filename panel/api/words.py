"""Error messages of API fields, in place of those of Django REST framework (for models: panel/core/words.py)."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxLengthValidator, MaxValueValidator, MinValueValidator
from rest_framework import serializers

from panel.core.words import number_between

_NUMBERS = (serializers.IntegerField, serializers.FloatField)
_SENT: tuple[tuple[Any, str], ...] = (
    (serializers.BooleanField, "Send true or false."),
    (serializers.DateTimeField, "Send a time such as 2026-01-31T12:00:00Z."),
    (serializers.ListField | serializers.ListSerializer | serializers.ManyRelatedField, "Send a JSON list."),
    (serializers.DictField | serializers.BaseSerializer, "Send a JSON object."),
    (serializers.FileField, "Send a file."),
    (serializers.CharField | serializers.UUIDField, "Send a JSON string."),
)


def _limits(field: Any) -> str:
    is_whole = isinstance(field, serializers.IntegerField)
    return number_between(field.min_value, field.max_value, is_whole=is_whole)


def _right(field: Any) -> str:
    """Describe the valid values of `field` in a sentence, for example `Send a JSON string.`"""
    if isinstance(field, _NUMBERS):
        return _limits(field)
    if isinstance(field, serializers.ChoiceField):
        return f"Send one of {_known(field)}."
    if isinstance(field, serializers.SlugRelatedField):
        return "Send the name of the object."
    for kinds, words in _SENT:
        if isinstance(field, kinds):
            return words
    return "Send a value."


def _known(field: serializers.ChoiceField) -> str:
    return ", ".join(str(key) or '""' for key in field.choices)


def _kind_words(field: Any) -> dict[str, str]:
    """Return the error messages for the type of `field`, by DRF's error codes."""
    if isinstance(field, _NUMBERS):
        return {"invalid": _limits(field), "overflow": _limits(field), "max_string_length": _limits(field)}
    if isinstance(field, serializers.ChoiceField):
        return {"invalid_choice": f"“{{input}}” is not valid. Known values: {_known(field)}."}
    if isinstance(field, serializers.BooleanField):
        return {"invalid": "Send true or false."}
    if isinstance(field, serializers.EmailField):
        wrong = "This is not an email address. Enter an address such as ada@example.com."
        return {"invalid": wrong, "blank": "This field must not be empty."}
    if isinstance(field, serializers.UUIDField):
        return {"invalid": "“{value}” is not a UUID. Send the complete UUID with hyphens."}
    if isinstance(field, serializers.DateTimeField):
        return {"invalid": "Send a time such as 2026-01-31T12:00:00Z."}
    if isinstance(field, serializers.CharField):
        return {"invalid": "Send a JSON string.", "blank": "This field must not be empty."}
    if isinstance(field, serializers.ListField | serializers.ListSerializer | serializers.ManyRelatedField):
        return {"not_a_list": "Send a JSON list.", "empty": "Send at least one value."}
    if isinstance(field, serializers.SlugRelatedField):
        return {
            "does_not_exist": "“{value}” does not exist, or you do not have access to it.",
            "invalid": "Send the name of the object.",
        }
    if isinstance(field, serializers.DictField | serializers.BaseSerializer):
        return {"not_a_dict": "Send a JSON object.", "invalid": "Send a JSON object."}
    return {}


def _validator(field: Any, validator: Any) -> Any:
    """Return the validator with messages that fit `field`: a copy, because models share their validators."""
    if type(validator) in (MinValueValidator, MaxValueValidator) and isinstance(field, _NUMBERS):
        return type(validator)(validator.limit_value, message=_limits(field))
    if type(validator) is MaxLengthValidator and isinstance(field, serializers.CharField):
        words = "Use at most %(limit_value)d characters; this value has %(show_value)d."
        return MaxLengthValidator(validator.limit_value, message=words)
    return validator


def put_into(field: Any) -> None:
    """Set the error messages of a serializer field and of its list items; messages that the field defines are kept."""
    right = _right(field)
    missing = {"required": f"This field is required. {right}", "null": f"This field must not be null. {right}"}
    own = field._kwargs.get("error_messages", {})
    field.error_messages |= missing | _kind_words(field) | own
    field.validators = [_validator(field, validator) for validator in field.validators]
    for name in ("child", "child_relation"):
        inner = getattr(field, name, None)
        if inner is not None and not isinstance(inner, serializers.BaseSerializer):
            put_into(inner)
