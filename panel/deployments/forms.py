"""Forms of deployments: filters of the list, settings of a maintenance, and change windows."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext_lazy as _

from panel.accounts.forms import timezone_choices
from panel.accounts.models import User
from panel.core.forms import Form, InWords, LinesField, MomentField, NameChoiceField, TagsFormField
from panel.deployments.change_windows import ChangeWindow
from panel.deployments.maintenance.services import TEXT, Settings
from panel.deployments.models import DeploymentKind, DeploymentStatus
from panel.deployments.windows.services import FIELDS
from panel.hosts.models import Host
from panel.hosts.selectors import hosts_visible, tags_of_all_hosts
from panel.rendering.maintenance import MAX_TEXT
from panel.websites.models import Maintenance


class FilterForm(Form):
    q = forms.CharField(
        label=_("Site or host"),
        required=False,
        widget=forms.SearchInput(attrs={"placeholder": _("Search sites and hosts")}),
    )
    status = forms.ChoiceField(label=_("Status"), required=False)
    kind = forms.ChoiceField(label=_("Kind"), required=False)
    host = NameChoiceField(
        label=_("Host"),
        required=False,
        queryset=Host.objects.none(),
        to_field_name="name",
        empty_label=_("Any"),
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        host = self.fields["host"]
        assert isinstance(host, forms.ModelChoiceField)
        host.queryset = hosts_visible(user).only("name")
        for name, choices in (("status", DeploymentStatus.choices), ("kind", DeploymentKind.choices)):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [("", _("Any")), *choices]


def _lines(value: list[str]) -> str:
    return "\n".join(value)


class DriftCheckForm(Form):
    """Form to check one host, or all hosts, for drift."""

    host = NameChoiceField(
        label=_("Host"), required=False, queryset=Host.objects.none(), to_field_name="name", empty_label=_("All hosts")
    )

    def __init__(self, *, hosts: QuerySet[Host]) -> None:
        super().__init__(auto_id="drift-%s")
        host = self.fields["host"]
        assert isinstance(host, NameChoiceField)
        host.queryset = hosts


class MaintenanceForm(InWords, forms.Form):
    """Settings of a maintenance; `current` is the running maintenance that supplies the initial values, or None."""

    text = forms.CharField(label=_("Text"), initial=TEXT, max_length=MAX_TEXT)
    retry_after_s = forms.IntegerField(
        label=_("Retry after, in seconds"),
        initial=600,
        min_value=1,
        max_value=604_800,
        help_text=_(
            "Search engines and other clients try again after this time (header Retry-After), for example `3600`."
        ),
    )
    ends_at = MomentField(label=_("End"), help_text=_("In your time zone. Leave empty to end the maintenance by hand."))
    allowed = LinesField(
        label=_("Allowed addresses"),
        required=False,
        to_text=_lines,
        from_text=str.split,
        help_text=_(
            "Visitors from these addresses see the site. One per line, for example `192.0.2.1` or `10.0.0.0/8`."
        ),
    )

    def __init__(self, *args: Any, current: Maintenance | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if current is not None:
            for name in Settings.__dataclass_fields__:
                self.initial[name] = getattr(current, name)

    def settings(self) -> Settings:
        return Settings(**{name: self.cleaned_data[name] for name in Settings.__dataclass_fields__})


def _clock(label: Any, help_text: Any = "") -> forms.TimeField:
    widget = forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    return forms.TimeField(label=label, required=False, widget=widget, help_text=help_text)


class ChangeWindowForm(InWords, forms.Form):
    """Settings of a weekly change window or a freeze; `current` is the window to edit, None for a new one."""

    name = forms.CharField(label=_("Name"), max_length=80)
    kind = forms.ChoiceField(label=_("Kind"), choices=ChangeWindow.Kind.choices)
    tags = TagsFormField(label=_("Tags of the hosts"))
    weekdays = forms.TypedMultipleChoiceField(
        label=_("Days"), required=False, coerce=int, choices=list(WEEKDAYS.items()), widget=forms.CheckboxSelectMultiple
    )
    opens_at = _clock(_("Opens at"))
    closes_at = _clock(_("Closes at"), _("If this time is before the opening time, the window closes on the next day."))
    zone = forms.ChoiceField(label=_("Time zone"), widget=forms.Select(attrs={"data-narrow": _("Filter time zones")}))
    begins_at = MomentField(label=_("Beginning"), help_text=_("In your time zone."))
    ends_at = MomentField(label=_("End"), help_text=_("In your time zone."))
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, current: ChangeWindow | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tags, zone = self.fields["tags"], self.fields["zone"]
        assert isinstance(tags, TagsFormField) and isinstance(zone, forms.ChoiceField)
        tags.tell_known(tags_of_all_hosts())  # for administrators
        tags.help_text = f"{tags.help_text} {_('Leave empty for all hosts.')}"
        zone.choices = timezone_choices()
        zone.initial = timezone.get_current_timezone_name()
        if current is not None:
            self.initial.update({name: getattr(current, name) for name in FIELDS}, version=current.row_version)
