"""Form errors use the panel's messages, never Django's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django import forms
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import get_resolver

from panel.core.forms import Form, InWords


class Everything(Form):
    text = forms.CharField(max_length=3)
    password = forms.CharField(widget=forms.PasswordInput)
    email = forms.EmailField()
    slug = forms.SlugField()
    number = forms.IntegerField(min_value=1, max_value=9)
    figure = forms.FloatField(min_value=0)
    date = forms.DateField()
    one = forms.ChoiceField(choices=[("a", "A")])
    several = forms.MultipleChoiceField(choices=[("a", "A")])
    file = forms.FileField()
    own = forms.CharField(error_messages={"required": "Write what only you know."})


def said(field: str, value: object) -> str:
    data = {field: value} if field != "file" else {}
    form = Everything(data, {"file": value} if field == "file" and value else {})  # type: ignore[dict-item]
    return " ".join(form.errors[field])


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("text", "", "This field must not be empty."),
        ("text", "four", "Use at most 3 characters; this value has 4."),
        ("text", "a\0", "Remove the null character."),
        ("password", "", "Enter the password."),
        ("email", "ada", "This is not an email address. Enter an address such as ada@example.com."),
        ("slug", "Two words", "Enter lowercase letters, digits, and hyphens"),
        ("number", "", "Enter a whole number from 1 to 9."),
        ("number", "many", "Enter a whole number from 1 to 9."),
        ("number", "0", "Enter a whole number from 1 to 9."),
        ("number", "10", "Enter a whole number from 1 to 9."),
        ("figure", "-1", "Enter a number of at least 0."),
        ("figure", "x", "Enter a number of at least 0."),
        ("date", "31.1.", "Enter a date as year-month-day, for example 2026-01-31."),
        ("one", "", "Choose an option."),
        ("one", "b", "“b” is not available, or no longer available. Choose another option."),
        ("several", [], "Choose at least one option."),
        ("several", ["b"], "“b” is not available, or no longer available. Choose another option."),
        ("file", None, "Choose a file."),
        ("file", SimpleUploadedFile("empty", b""), "This file is empty. Choose another file."),
        ("own", "", "Write what only you know."),
    ],
)
def test_form_error_names_valid_value(field: str, value: object, words: str) -> None:
    assert words in said(field, value)


def _kinds(kind: type[forms.BaseForm]) -> Iterator[type[forms.BaseForm]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def test_every_form_uses_own_error_messages() -> None:
    assert get_resolver().url_patterns, "imports every page, and with them their forms"
    mine = [kind for kind in _kinds(forms.BaseForm) if kind.__module__.startswith("panel.")]
    assert len(mine) > 25
    assert [kind.__name__ for kind in mine if not issubclass(kind, InWords)] == []
