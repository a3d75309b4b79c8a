"""Base classes of the forms for a site and its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from django import forms
from django.db.models import Model, QuerySet
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.forms import InWords, leave_to_model
from panel.hosts.models import Engine

M = TypeVar("M", bound=Model)

if TYPE_CHECKING:
    from django.forms import ModelForm
else:

    class ModelForm(InWords, forms.ModelForm):
        """Django's ModelForm, made generic over its model for type checkers."""

        def __class_getitem__(cls, item: Any) -> type:
            return cls


class PartForm(ModelForm[M]):
    """Model form that only validates values; services save them. `version` is the row's version when the form was
    opened.
    """

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        leave_to_model(self)
        self.initial.setdefault("version", getattr(self.instance, "row_version", None) if self.instance.pk else None)

    @property
    def expected_version(self) -> int | None:
        return self.cleaned_data.get("version")

    def values(self) -> dict[str, Any]:
        """Return the form's values without the version, as keyword arguments for a service."""
        return {name: value for name, value in self.cleaned_data.items() if name != "version"}


class RawDirectivesForm(PartForm[M]):
    """Form with raw directives in the field `text`. A field `engine`, if the form has it, chooses the kind of web
    server.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "engine" in self.fields:
            engine = self.fields["engine"]
            assert isinstance(engine, forms.ChoiceField)
            engine.choices = [("", _("Choose a web server")), *Engine.choices]

    def clean_text(self) -> str:
        """Return the raw directives with LF line ends instead of the CRLF that browsers send."""
        text: str = self.cleaned_data["text"]
        return text.replace("\r\n", "\n")


def offer_teams(form: forms.BaseForm, teams: QuerySet[Team]) -> None:
    """Offer the given teams in the form's field `team`; if there is only one, select it."""
    choice = form.fields["team"]
    assert isinstance(choice, forms.ModelChoiceField)
    choice.queryset = teams
    choice.empty_label = None if teams.count() == 1 else _("Choose a team")


def null_boolean(label: Any, unknown: Any, **kwargs: Any) -> forms.NullBooleanField:
    field = forms.NullBooleanField(label=label, **kwargs)
    field.widget = forms.Select(choices=[("unknown", unknown), ("true", _("On")), ("false", _("Off"))])
    return field
