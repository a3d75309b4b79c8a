"""Forms to add allowances, one below each list of allowances."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from panel.websites.forms.base import PartForm
from panel.websites.models import Allowance, AllowanceKind


class SharedNameForm(PartForm[Allowance]):
    class Meta:
        model = Allowance
        fields = ("kind", "value", "team", "host", "note")
        labels = {
            "kind": _("Type"),
            "value": _("Name or address"),
            "team": _("Team"),
            "host": _("Host"),
            "note": _("Note"),
        }
        help_texts = {
            "value": _("A name such as `shop.example.com` or `*.example.com`, or an address such as `127.0.0.1:80`."),
            "host": _("Leave empty for every host."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kind, team, host = (self.fields[name] for name in ("kind", "team", "host"))
        assert isinstance(kind, forms.ChoiceField) and isinstance(team, forms.ModelChoiceField)
        assert isinstance(host, forms.ModelChoiceField)
        kind.choices = [choice for choice in AllowanceKind.choices if choice[0] != AllowanceKind.SERVICE]
        team.empty_label, host.empty_label = _("Choose a team"), _("Every host")


class LocalServiceForm(PartForm[Allowance]):
    class Meta:
        model = Allowance
        fields = ("value", "team", "note")
        labels = {"value": _("Address or socket"), "team": _("Team"), "note": _("Note")}
        help_texts = {
            "value": _(
                "For example `127.0.0.1:3000`, `127.0.0.1:3000-3099`, `unix:/run/php/shop.sock`, or `unix:/run/shop/*`."
            ),
            "note": _("For example: PHP pool of the shop."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        team = self.fields["team"]
        assert isinstance(team, forms.ModelChoiceField)
        team.empty_label = _("Every team")
