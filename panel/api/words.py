"""What a member of a body may be, in words instead of the framework's own (for models: panel/core/words.py)."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxLengthValidator, MaxValueValidator, MinValueValidator
from rest_framework import serializers

_NUMBERS = (serializers.IntegerField, serializers.FloatField)


def _limits(field: Any) -> str:
    low, high = field.min_value, field.max_value
    kind = "a whole number" if isinstance(field, serializers.IntegerField) else "a number"
    if low is not None and high is not None:
        return f"Write {kind} from {low} to {high}."
    return f"Write {kind}." if low is None else f"Write {kind} from {low} on."


def _kind_words(field: Any) -> dict[str, str]:
    """By the kind of the field, the words for its own faults."""
    if isinstance(field, _NUMBERS):
        return {"invalid": _limits(field), "overflow": _limits(field), "max_string_length": _limits(field)}
    if isinstance(field, serializers.ChoiceField):
        known = ", ".join(str(key) or '""' for key in field.choices)
        return {"invalid_choice": f"“{{input}}” is none of these: {known}."}
    if isinstance(field, serializers.BooleanField):
        return {"invalid": "This is true or false."}
    if isinstance(field, serializers.CharField):
        return {"invalid": "This is a text: write it in quotes.", "blank": "This must not be empty."}
    if isinstance(field, serializers.ListField | serializers.ListSerializer | serializers.ManyRelatedField):
        return {"not_a_list": "This is a JSON list.", "empty": "Name at least one."}
    if isinstance(field, serializers.SlugRelatedField):
        return {"does_not_exist": "There is none called “{value}” that you may see.", "invalid": "Write its name."}
    return {}


def _validator(field: Any, validator: Any) -> Any:
    """Limits in the field's words; the validators of models are shared, so a changed one is a new one."""
    if type(validator) in (MinValueValidator, MaxValueValidator) and isinstance(field, _NUMBERS):
        return type(validator)(validator.limit_value, message=_limits(field))
    if type(validator) is MaxLengthValidator and isinstance(field, serializers.CharField):
        words = "At most %(limit_value)d characters; this has %(show_value)d."
        return MaxLengthValidator(validator.limit_value, message=words)
    return validator


def put_into(field: Any) -> None:
    """Have `field`, and what it is a list of, speak in these words."""
    field.error_messages |= {"required": "This is missing.", "null": "This must not be null.", **_kind_words(field)}
    field.validators = [_validator(field, validator) for validator in field.validators]
    for name in ("child", "child_relation"):
        inner = getattr(field, name, None)
        if inner is not None and not isinstance(inner, serializers.BaseSerializer):
            put_into(inner)
