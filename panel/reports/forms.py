"""Forms of schedules and of the list of reports. Schedule.full_clean() checks the values of pages and of the API."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from panel.accounts.forms import timezone_choices
from panel.accounts.models import Team, User
from panel.accounts.permissions import teams_visible
from panel.benchmarks.forms import SitesForm, offer_load_hosts, offer_rows, suite_choice, suite_fields
from panel.benchmarks.models import Scenario
from panel.benchmarks.selectors import scenarios_visible
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.definitions import PRESETS, Suite
from panel.core.errors import ApplicationError
from panel.core.forms import InWords, LinesField, add_application_error
from panel.hosts.models import Host
from panel.hosts.selectors import hosts_visible
from panel.reports.choices import PRESET_LABELS, Form, Kind, Notify, Outcome, Overlap
from panel.reports.models import Schedule
from panel.reports.selectors import schedules_visible

_OF_KIND = {Kind.SCENARIO: ("scenario", "sites", "baseline"), Kind.SUITE: ("suite", "preset", "host")}


class ScheduleForm(SitesForm):
    """Form of a schedule of one kind, a scenario or a suite; each kind has its own page."""

    name = forms.CharField(label=_("Name"), max_length=120)
    team = forms.ModelChoiceField(
        Team.objects.none(),
        label=_("Team"),
        required=False,
        empty_label=_("All teams"),
        help_text=_("Members of this team can see the schedule."),
    )
    cron = forms.CharField(
        label=_("Schedule (cron)"),
        max_length=120,
        initial="30 2 * * *",
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false", "autocomplete": "off"}),
        help_text=_(
            "Minute, hour, day of the month, month, day of the week, for example `30 2 * * 1` for "
            "Mondays at 2:30, or `@daily`."
        ),
    )
    timezone = forms.ChoiceField(
        label=_("Time zone"), widget=forms.Select(attrs={"data-narrow": _("Filter this list")})
    )
    scenario = forms.ModelChoiceField(Scenario.objects.none(), label=_("Scenario"), empty_label=_("Choose a scenario"))
    suite = forms.ChoiceField(label=_("Suite"), choices=[(slug, suite.title) for slug, suite in SUITES.items()])
    preset = forms.ChoiceField(label=_("Preset"), choices=[(name, PRESET_LABELS[name]) for name in PRESETS])
    host = forms.ModelChoiceField(Host.objects.none(), label=_("Host"), to_field_name="name", empty_label=None)
    overlap = forms.ChoiceField(
        label=_("If the previous run is still in progress"), choices=Overlap.choices, initial=Overlap.SKIP
    )
    grace_minutes = forms.IntegerField(
        label=_("Latest start (minutes after the date)"),
        initial=60,
        help_text=_(
            "Paddock reports a run as missed if the run cannot start by then, for example because the host is busy."
        ),
    )
    notify = forms.ChoiceField(label=_("Notify about"), choices=Notify.choices, initial=Notify.ALWAYS)
    recipients = LinesField(
        label=_("Email recipients"),
        to_text="\n".join,
        from_text=lambda text: text.replace(",", "\n").split(),
        rows=2,
        help_text=_("Addresses, one per line, for example `ops@example.com`."),
    )
    attachments = forms.MultipleChoiceField(
        label=_("Email attachment"),
        choices=Form.choices,
        required=False,
        initial=[Form.PDF],
        widget=forms.CheckboxSelectMultiple,
    )
    webhook_url = forms.CharField(
        label=_("Webhook"),
        max_length=500,
        required=False,
        help_text=_(
            "Receives a signed POST with JSON for each report, for example `https://hooks.example.com/paddock`."
        ),
    )
    webhook_secret = forms.CharField(
        label=_("Webhook secret"),
        required=False,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=_(
            "Enter at least 16 characters. Leave empty to keep the current secret. A new URL clears the secret."
        ),
    )
    keep_reports = forms.IntegerField(
        label=_("Reports to keep"), required=False, initial=100, help_text=_("Leave empty to keep all reports.")
    )
    keep_days = forms.IntegerField(
        label=_("Days to keep reports"), required=False, help_text=_("Leave empty for no limit. Runs are always kept.")
    )

    def __init__(self, *args: Any, user: User, kind: Kind, schedule: Schedule | None = None, **kwargs: Any) -> None:
        initial = {**_stored(schedule), **(kwargs.pop("initial", None) or {})}
        super().__init__(*args, user=user, initial=initial, **kwargs)
        self.kind, self.schedule = kind, schedule
        offer_rows(self.fields["team"], teams_visible(user))
        offer_rows(self.fields["scenario"], scenarios_visible(user))
        offer_rows(self.fields["host"], hosts_visible(user))
        zones = self.fields["timezone"]
        assert isinstance(zones, forms.ChoiceField)
        zones.choices = timezone_choices()
        zones.initial = timezone.get_current_timezone_name()
        for other, names in _OF_KIND.items():
            if other != kind:
                for name in names:
                    del self.fields[name]
        if kind == Kind.SUITE:
            is_stored = schedule is not None and schedule.suite == self.chosen_suite.slug
            self.fields |= suite_fields(self.chosen_suite, initial.get("cases", ()) if is_stored else ())
            offer_load_hosts(self.fields, user)

    @property
    def chosen_suite(self) -> Suite:
        """The suite whose parts the form offers: the suite that the user chose, else the suite of the stored schedule,
        else the first suite.
        """
        return SUITES.get(str(self["suite"].value()), next(iter(SUITES.values())))

    def clean(self) -> dict[str, object]:
        if self.kind == Kind.SCENARIO:
            return super().clean()
        data = self.cleaned_data
        if {"preset", *suite_fields(self.chosen_suite)} <= data.keys():
            try:
                suite_choice(data).of(self.chosen_suite, data["preset"])
            except ApplicationError as error:
                error.field = error.field.removeprefix("network/")
                add_application_error(self, error)
        return data

    @property
    def values(self) -> dict[str, Any]:
        """The form's values, as keyword arguments for the services."""
        mine = {"sites", "baseline"} | (suite_fields(self.chosen_suite).keys() if self.kind == Kind.SUITE else set())
        data = {name: value for name, value in self.cleaned_data.items() if name not in mine}
        if not data["webhook_secret"] and data["webhook_url"]:
            del data["webhook_secret"]
        if self.kind == Kind.SCENARIO:
            data["sites"] = self.ordered
        else:
            data["chosen"] = self._chosen
        return {**data, "kind": self.kind}

    @property
    def _chosen(self) -> dict[str, object]:
        setups = self.cleaned_data["setups"]
        return {**suite_choice(self.cleaned_data).stored(), **({"setups": setups} if setups else {})}


def _stored(schedule: Schedule | None) -> dict[str, object]:
    if schedule is None:
        return {}
    names = [row.name for row in schedule.sites.all()]
    own = (name for name in ScheduleForm.base_fields if name not in ("sites", "baseline", "webhook_secret"))
    values = {name: getattr(schedule, name) for name in own}
    values["host"] = schedule.host.name if schedule.host else None
    values |= schedule.chosen | schedule.chosen.get("network", {})
    return {**values, "sites": names, "baseline": names[0] if names else None}


class ReportFilterForm(InWords, forms.Form):
    q = forms.CharField(
        label=_("Search reports"), required=False, widget=forms.SearchInput(attrs={"placeholder": _("Search reports")})
    )
    outcome = forms.ChoiceField(label=_("Outcome"), required=False, choices=[("", _("Any")), *Outcome.choices])
    schedule = forms.ModelChoiceField(
        Schedule.objects.none(), label=_("Schedule"), required=False, empty_label=_("Any")
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_rows(self.fields["schedule"], schedules_visible(user))
