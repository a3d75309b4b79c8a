"""What forms of several apps share."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from panel.core.errors import ApplicationError


class ConfirmNameForm(forms.Form):
    """Asks for the name of what will be lost, as the last check before it is."""

    confirm = forms.CharField(label="", required=False, strip=True)

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

    def clean_confirm(self) -> str:
        given = str(self.cleaned_data["confirm"])
        if given != self.expected:
            raise ValidationError(_("This is not the name. Type exactly: %(name)s") % {"name": self.expected})
        return given


def add_application_error(form: forms.BaseForm, error: ApplicationError) -> None:
    """Puts a service's refusal at the field it names, or above the form when the form has no such field."""
    name = error.field if error.field in form.fields else None
    form.add_error(name, error.message)


def field_errors(request: HttpRequest, form: forms.BaseForm, *, field: str | None = None) -> HttpResponse:
    """The answer to an inline validation: only the messages of the field that is being typed in.

    The `field` tag posts the whole form with `_field` naming the field (its HTML name, prefix included).
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
