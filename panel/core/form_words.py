"""Error messages of form fields that name a valid value, in place of Django's.

words.py has the messages of models, panel/api/words.py those of API fields.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _

from panel.core import words

Words = dict[str, Any]


def _number(field: forms.IntegerField) -> Words:
    is_whole = not isinstance(field, forms.FloatField)
    low, high = (limit() if callable(limit) else limit for limit in (field.min_value, field.max_value))
    right = words.number_between(low, high, is_whole=is_whole)
    return dict.fromkeys(("required", "invalid", "min_value", "max_value", "overflow"), right)


def _choice(field: forms.Field) -> Words:
    gone = _("“%(value)s” is not available, or no longer available. Choose another option.")
    several = isinstance(field, forms.MultipleChoiceField | forms.ModelMultipleChoiceField)
    missing = _("Choose at least one option.") if several else _("Choose an option.")
    number = _("“%(pk)s” is not available, or no longer available. Choose another option.")
    return {"required": missing, "invalid_choice": gone, "invalid_pk_value": number, "invalid_list": missing}


def _text(field: forms.Field) -> Words:
    is_password = isinstance(field.widget, forms.PasswordInput)
    return {
        "required": _("Enter the password.") if is_password else _("This field must not be empty."),
        "max_length": _("Use at most %(limit_value)d characters; this value has %(show_value)d."),
        "null_characters_not_allowed": _("Remove the null character."),
    }


def _kind_words(field: forms.Field) -> Words:
    """Return the panel's error messages for fields of this type: {Django's error code: message}."""
    if isinstance(field, forms.IntegerField):
        return _number(field)
    if isinstance(field, forms.ChoiceField | forms.ModelChoiceField):  # each with its multiple-choice variant
        return _choice(field)
    if isinstance(field, forms.FileField):
        empty = _("This file is empty. Choose another file.")
        return {**dict.fromkeys(("required", "missing", "invalid"), _("Choose a file.")), "empty": empty}
    if isinstance(field, forms.DateField):
        right = _("Enter a date as year-month-day, for example 2026-01-31.")
        return {"required": right, "invalid": right}
    if isinstance(field, forms.EmailField):
        return _text(field) | {"invalid": _("This is not an email address. Enter an address such as ada@example.com.")}
    if isinstance(field, forms.SlugField):
        return _text(field) | {"invalid": _("Enter lowercase letters, digits, and hyphens, for example web-team.")}
    return _text(field) if isinstance(field, forms.CharField) else {}


def _defaults(field: forms.Field) -> dict[str, object]:
    """Return Django's default error messages for fields of this type: {error code: message}."""
    found: dict[str, object] = {}
    for kind in reversed(type(field).__mro__):
        found |= getattr(kind, "default_error_messages", {})
    return found


def put_into(form: forms.BaseForm) -> None:
    """Set the error messages of the form's fields; custom messages are kept.
    Messages of number fields name the limits of the form's model.
    """
    model = form._meta.model if isinstance(form, forms.BaseModelForm) else None
    columns = {column.name: column for column in model._meta.concrete_fields} if model else {}
    for name, field in form.fields.items():
        said = _kind_words(field)
        if name in columns and isinstance(field, forms.IntegerField):
            said = dict.fromkeys(said, words.limits(columns[name]))
        own = {code: text for code, text in field.error_messages.items() if _defaults(field).get(code) != text}
        field.error_messages = {**field.error_messages, **said, **own}
