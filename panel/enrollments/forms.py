"""Form to create an enrollment."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.forms import InWords, TagsFormField
from panel.enrollments.models import Enrollment

HOURS = [(1, _("one hour")), (24, _("one day")), (168, _("seven days")), (720, _("30 days"))]


class EnrollmentForm(InWords, forms.ModelForm):  # type: ignore[type-arg] # not subscriptable when it runs
    hours = forms.TypedChoiceField(label=_("Valid for"), choices=HOURS, coerce=int, initial=1)
    tags = TagsFormField(label=_("Tags"))
    teams = forms.ModelMultipleChoiceField(
        label=_("Teams"),
        queryset=Team.objects.order_by("name"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Only these teams see and use the new hosts. Select none to let every team use the hosts."),
    )

    class Meta:
        model = Enrollment
        fields = ["most_hosts", "username"]
        labels = {"most_hosts": _("Number of hosts"), "username": _("Account on the host")}
        help_texts = {
            "most_hosts": _("Number of hosts that can run the command, for example `10`."),
            "username": _(
                "The command creates this account on the host if it does not exist, and allows the "
                "account to use sudo without a password."
            ),
        }

    def values(self) -> Mapping[str, Any]:
        """Return the form's values as keyword arguments for `enrollment_create`."""
        data = dict(self.cleaned_data)
        valid_for = dt.timedelta(hours=data.pop("hours"))
        return data | {"valid_for": valid_for}
