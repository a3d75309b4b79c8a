"""Filters of the list of deployments."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from panel.core.forms import Form
from panel.deployments.models import DeploymentKind, DeploymentStatus
from panel.hosts.models import Host


class FilterForm(Form):
    q = forms.CharField(
        label=_("Site or host"),
        required=False,
        widget=forms.SearchInput(attrs={"placeholder": _("Search sites and hosts")}),
    )
    status = forms.ChoiceField(label=_("Status"), required=False)
    kind = forms.ChoiceField(label=_("Kind"), required=False)
    host = forms.ModelChoiceField(
        label=_("Host"), required=False, queryset=Host.objects.all(), to_field_name="name", empty_label=_("Any")
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, choices in (("status", DeploymentStatus.choices), ("kind", DeploymentKind.choices)):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [("", _("Any")), *choices]
