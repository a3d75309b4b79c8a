"""Base classes and fields of forms that several apps use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape as html_escape
from typing import Any, TypeVar

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, validate_slug
from django.forms.models import ModelChoiceIterator
from django.forms.utils import flatatt
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.core import form_words
from panel.core.errors import ApplicationError
from panel.core.tags import tags_checked, tags_from_text, tags_to_text

T = TypeVar("T")
SHOWN_TAGS = 30


class InWords(forms.BaseForm):
    """Base class of all forms: sets the panel's own error messages of fields."""

    def full_clean(self) -> None:
        form_words.put_into(self)
        super().full_clean()


class Form(InWords, forms.Form):
    """Base of forms without a model."""


class ConfirmNameForm(Form):
    """Form that asks for the name of an object, to confirm an action such as its deletion."""

    confirm = forms.CharField(label="", strip=True)

    def __init__(self, *args: Any, expected: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.expected = expected
        self.fields["confirm"].label = _("Type %(name)s to confirm") % {"name": expected}
        self.fields["confirm"].widget.attrs |= {
            "autocomplete": "off",
            "autocapitalize": "none",
            "spellcheck": "false",
            "data-confirm-name": expected,
        }
        self.fields["confirm"].error_messages["required"] = _("Type exactly: %(name)s") % {"name": expected}

    def clean_confirm(self) -> str:
        given = str(self.cleaned_data["confirm"])
        if given != self.expected:
            raise ValidationError(_("The name does not match. Type exactly: %(name)s") % {"name": self.expected})
        return given


def leave_to_model(form: forms.BaseModelForm[Any]) -> None:
    """Remove Django's checks of slugs and number limits from a form's fields. The model repeats these checks, with
    better messages.
    """
    mine = {field.name for field in form._meta.model._meta.concrete_fields}
    general = (MinValueValidator, MaxValueValidator)
    for name in mine & set(form.fields):
        field = form.fields[name]
        field.validators = [
            check for check in field.validators if check is not validate_slug and not isinstance(check, general)
        ]


def add_application_error(form: forms.BaseForm, error: ApplicationError) -> None:
    """Add the error of a service to the form field named in `error.field`, or to the whole form if there is no such
    field.
    """
    name = error.field if error.field in form.fields else None
    form.add_error(name, error.message)


def attempt(form: forms.BaseForm, work: Callable[[], T]) -> T | None:
    """Call `work`, which calls a service, and return the result. If `work` raises ApplicationError or
    ValidationError, add the errors to the form's fields and return None.
    """
    try:
        return work()
    except ApplicationError as error:
        add_application_error(form, error)
    except ValidationError as error:
        if not hasattr(error, "error_dict"):
            form.add_error(None, error)
            return None
        for place, messages in error.message_dict.items():
            # An error of a list item, listens/1/port, belongs to the list's field.
            field = place.split("/")[0]
            for message in messages:
                form.add_error(field if field in form.fields else None, message)
    return None


def form_status(form: forms.BaseForm) -> int:
    """Return the HTTP status of a response with this form: 422 if it was submitted and has errors, otherwise 200."""
    return 422 if form.errors else 200


class LongSelect(forms.Select):
    """Select widget for thousands of choices without groups, rendered without templates. Django's widget renders one
    template per choice.
    """

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        chosen = {str(item) for item in self.format_value(value)}
        options = []
        for key, label in self.choices:
            key, label = "" if key is None else str(key), str(label)
            # html.escape: Django's escape also checks for lazy texts, thousands of times
            escaped = html_escape(key)
            shown = escaped if label == key else html_escape(label)
            options.append(f'<option value="{escaped}"{" selected" if key in chosen else ""}>{shown}</option>')
        found = flatatt({**self.build_attrs(self.attrs, attrs), "name": name})
        return format_html("<select{}>{}</select>", found, mark_safe("".join(options)))  # noqa: S308 - escaped above


class _Names(ModelChoiceIterator):  # type: ignore[type-arg] # not subscriptable when it runs
    """Choices whose value and label are both the name of a row."""

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        if self.field.empty_label is not None:
            yield "", self.field.empty_label
        name = self.field.to_field_name or "name"
        for value in self.queryset.values_list(name, flat=True):
            yield value, value


class NameChoiceField(forms.ModelChoiceField):  # type: ignore[type-arg] # as above
    """Field to choose one of thousands of rows by name (`to_field_name`), without loading the rows."""

    iterator = _Names
    widget = LongSelect


class MomentField(forms.DateTimeField):
    """Field for a date and time in the user's time zone, with the browser's own control."""

    def __init__(self, **kwargs: Any) -> None:
        widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
        super().__init__(required=False, widget=widget, **kwargs)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, stripped, without empty lines."""
    return [line.strip() for line in text.splitlines() if line.strip()]


class LinesField(forms.CharField):
    """Field for a list that is edited as text.
    `to_text` formats the list, `from_text` parses the text or raises ValidationError. By default, each item is one
    line.
    """

    def __init__(
        self,
        *,
        to_text: Callable[[Any], str] = "\n".join,
        from_text: Callable[[str], Any] = lines_of,
        rows: int = 3,
        **kwargs: Any,
    ) -> None:
        attrs = {"rows": rows, "class": "lines", "spellcheck": "false", "autocapitalize": "none"}
        widget = forms.Textarea(attrs=attrs) if rows > 1 else forms.TextInput(attrs=attrs | {"class": "mono"})
        super().__init__(widget=widget, required=kwargs.pop("required", False), strip=False, **kwargs)
        self.to_text, self.from_text = to_text, from_text

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) or value is None else self.to_text(value)

    def to_python(self, value: Any) -> Any:
        return self.from_text((super().to_python(value) or "").replace("\r\n", "\n"))

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.to_python(data) != (initial or self.to_python("")))
        except ValidationError:
            return True

    def validate(self, value: Any) -> None:
        if self.required and not value:
            raise ValidationError(self.error_messages["required"], code="required")

    def run_validators(self, value: Any) -> None:
        """Skip the validators of text fields, which expect a text instead of a list; the model validates the list
        later.
        """


class TagsFormField(LinesField):
    """Field for tags, separated by commas or spaces. `tell_known` adds existing tags to its help text."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(to_text=tags_to_text, from_text=_tags_read, rows=1, **kwargs)

    def tell_known(self, known: Iterable[str]) -> None:
        words = _("Separate tags with commas or spaces, for example prod, eu.")
        used = list(known)[:SHOWN_TAGS]
        self.help_text = words + (" " + _("Existing tags: %s.") % tags_to_text(used) if used else "")


def _tags_read(text: str) -> list[str]:
    return tags_checked(tags_from_text(text))


class TagsChangeForm(Form):
    """Form to add and remove tags of several objects."""

    add = TagsFormField(label=gettext_lazy("Add"))
    remove = TagsFormField(label=gettext_lazy("Remove"))

    def __init__(self, *args: Any, known: Iterable[str], theirs: Iterable[str], **kwargs: Any) -> None:
        """Build the form. `known` are all tags in use, `theirs` those of the selected objects."""
        super().__init__(*args, **kwargs)
        for name, tags in (("add", known), ("remove", theirs)):
            field = self.fields[name]
            assert isinstance(field, TagsFormField)
            field.tell_known(tags)

    def clean(self) -> dict[str, object]:
        data = super().clean() or self.cleaned_data
        if not self.errors and not data["add"] and not data["remove"]:
            self.add_error("add", _("Enter at least one tag to add or remove."))
        return data


class TagFilterField(forms.ChoiceField):
    """Filter field to choose one of the tags in use, or *Any* for no filter."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(label=gettext_lazy("Tag"), required=False, **kwargs)

    def offer(self, tags: Iterable[str]) -> None:
        """Set the tags to choose from. With an empty list, the field is hidden and accepts no value."""
        self.choices = [("", _("Any")), *((tag, tag) for tag in tags)]
        if len(self.choices) == 1:
            self.widget = forms.HiddenInput()


def field_errors(request: HttpRequest, form: forms.BaseForm, *, field: str | None = None) -> HttpResponse:
    """Return the response to the inline validation of a field: its error messages; 400 for an unknown field.

    The template tag `field` posts the whole form, with the field's HTML name (including its prefix) in `_field`.
    """
    html_name = field or request.POST.get("_field", "")
    for name in form.fields:
        if form.add_prefix(name) == html_name:
            context: dict[str, object] = {
                "error_id": f"{form[name].auto_id}-error",
                "errors": form.errors.get(name, []),
            }
            return render(request, "components/field_error.html", context)
    return HttpResponse(status=400)
