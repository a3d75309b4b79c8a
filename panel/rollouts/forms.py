"""Form *Deploy in waves* of a plan."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from panel.core.forms import InWords, MomentField
from panel.rollouts.models import MOST_SOAK_S
from panel.rollouts.services import Rules


class RolloutForm(InWords, forms.Form):
    first = forms.IntegerField(label=_("Hosts in the first wave"), initial=1, min_value=1, max_value=10_000)
    percent = forms.IntegerField(
        label=_("Percent of the hosts in the second wave"),
        initial=10,
        min_value=1,
        max_value=100,
        help_text=_("All other hosts are the third wave. Enter for example `10`."),
    )
    soak_s = forms.IntegerField(
        label=_("Seconds to observe each wave"), initial=300, min_value=0, max_value=MOST_SOAK_S
    )
    most_errors = forms.FloatField(
        label=_("Allowed increase of 5xx responses, in percentage points"),
        initial=1.0,
        min_value=0,
        max_value=100,
        help_text=_(
            "Compared with the access log before the deployment, and with hosts without the new configuration."
        ),
    )
    most_slower = forms.IntegerField(
        label=_("Allowed increase of response times, in percent"),
        initial=100,
        min_value=0,
        max_value=10_000,
        help_text=_("Increase of the time within which 99 % of the requests end, for access logs that record times."),
    )
    hook_url = forms.CharField(
        label=_("Hook URL"),
        required=False,
        max_length=1000,
        help_text=_("Paddock sends a POST request after each wave. A 2xx response lets the wave pass."),
    )
    start_at = MomentField(label=_("Start"), help_text=_("In your time zone. Leave empty to start at once."))
    needs_approval = forms.BooleanField(
        label=_("A person approves each wave before the next wave starts"), required=False
    )
    needs_other_person = forms.BooleanField(label=_("A person other than me has to approve"), required=False)
    accept_drift = forms.BooleanField(required=False)
    deploy_anyway = forms.BooleanField(required=False)

    def rules(self) -> Rules:
        values: dict[str, Any] = dict(self.cleaned_data)
        return Rules(**{name: values[name] for name in Rules.__dataclass_fields__})
