"""Forms of the benchmark pages. Scenario.full_clean() checks the values of pages and of the API."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, TypedDict

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team, User
from panel.accounts.permissions import teams_visible
from panel.benchmarks import selectors
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import RunStatus, Scenario
from panel.benchmarks.suites import choosing, links
from panel.benchmarks.suites.choosing import Choice
from panel.benchmarks.suites.definitions import PROTOCOLS, Network, Suite
from panel.benchmarks.tools.arguments import TOOLS, Field
from panel.core.forms import Form, LinesField, lines_of
from panel.hosts.models import Connection
from panel.hosts.selectors import hosts_visible
from panel.websites.listing import site_tags, sites_tagged
from panel.websites.models import Site

ARGUMENT = "argument_"
OFFERED = 30
_PLAIN = ("name", "team", "rounds", "warmup_s", "timeout_s", "allowed_error_percent")


def _form_field(field: Field, initial: Any) -> forms.Field:
    label = f"{field.label} ({field.unit})" if field.unit else field.label
    common: dict[str, Any] = {"label": label, "help_text": field.help, "required": False, "initial": initial}
    if field.kind == "boolean":
        return forms.BooleanField(**common)
    if field.kind == "choice":
        return forms.ChoiceField(choices=field.choices, **common)
    # A text field, so that invalid numbers get the message of the common check.
    widget = forms.NumberInput(attrs={"min": field.low, "max": field.high, "inputmode": "numeric"})
    return forms.CharField(widget=widget, **common)


class ScenarioForm(Form):
    """Form for a scenario with one load tool. The tool's arguments become additional form fields."""

    name = forms.CharField(label=_("Name"), max_length=120)
    team = forms.ModelChoiceField(
        Team.objects.none(),
        label=_("Team"),
        required=False,
        empty_label=_("All teams"),
        help_text=_("Members of this team can see the scenario."),
    )
    paths = forms.CharField(
        label=_("Paths"),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        error_messages={"required": _("Enter at least one path, for example /.")},
        help_text=_("URL paths on the sites, one per line, for example `/index.html`."),
        initial="/",
    )
    rounds = forms.IntegerField(
        label=_("Rounds"),
        initial=3,
        help_text=_("Use at least 3 rounds to compare; with 6 or more rounds, intervals reach 95 % confidence."),
    )
    warmup_s = forms.IntegerField(
        label=_("Warm-up (s)"), initial=2, help_text=_("Load before the first round, not measured, for example `2`.")
    )
    timeout_s = forms.IntegerField(label=_("Time limit per round (s)"), initial=120)
    allowed_error_percent = forms.FloatField(
        label=_("Allowed errors (%)"), initial=0.0, help_text=_("Paddock marks a run with more errors as invalid.")
    )

    def __init__(self, *args: Any, user: User, tool: Tool, scenario: Scenario | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tool, self.scenario = tool, scenario
        teams = self.fields["team"]
        assert isinstance(teams, forms.ModelChoiceField)
        teams.queryset = teams_visible(user)
        self.tool_form = TOOLS[tool]
        if scenario:
            self.initial = {name: getattr(scenario, name) for name in _PLAIN} | {"paths": "\n".join(scenario.paths)}
        for field in self.tool_form.fields:
            initial = scenario.arguments.get(field.name) if scenario else field.default
            self.fields[ARGUMENT + field.name] = _form_field(field, initial)

    @property
    def arguments(self) -> list[forms.BoundField]:
        return [self[ARGUMENT + field.name] for field in self.tool_form.fields]

    def clean(self) -> dict[str, object]:
        data = self.cleaned_data
        values = {name: data[name] for name in _PLAIN if name in data} | {
            "tool": self.tool.value,
            "arguments": {field.name: data.get(ARGUMENT + field.name) for field in self.tool_form.fields},
            "paths": lines_of(data.get("paths", "")),
        }
        draft = copy(self.scenario) if self.scenario else Scenario()
        for name, value in values.items():
            setattr(draft, name, value)
        try:
            draft.full_clean(exclude=[name for name in _PLAIN if name not in data])
        except ValidationError as error:
            self._place(error)
        self.values = values
        return data

    def _place(self, error: ValidationError) -> None:
        """Assign each error of the scenario's validation to the form field that caused the error."""
        for name, errors in error.error_dict.items():
            for one in errors:
                member = (one.params or {}).get("field", "") if name == "arguments" else ""
                place = ARGUMENT + member if member else name
                words = [text.removeprefix(f"{member}: ") for text in one.messages]
                self.add_error(place if place in self.fields else None, words)


class SitesForm(Form):
    """Form to choose the sites of a measurement, and the baseline among them.
    `search` and `tag` filter the offered sites; sites that the user has chosen are offered in any case. The form
    accepts any site that can be measured.
    """

    sites = forms.ModelMultipleChoiceField(
        Site.objects.none(),
        label=_("Sites"),
        widget=forms.CheckboxSelectMultiple,
        to_field_name="name",
        error_messages={"required": _("Select at least one site to benchmark.")},
    )
    baseline = forms.ModelChoiceField(
        Site.objects.none(),
        label=_("Baseline"),
        required=False,
        to_field_name="name",
        empty_label=_("First selected site"),
        help_text=_("The results show the other sites as multiples of this site."),
    )

    def __init__(self, *args: Any, user: User, search: str = "", tag: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sites = selectors.sites_measurable(user)
        for name in ("sites", "baseline"):
            offer_rows(self.fields[name], sites)
        self.search = search
        self.tags = site_tags(sites)
        self.tag = tag if tag in self.tags else ""
        self._offer(sites)

    @property
    def can_narrow(self) -> bool:
        """Return whether the page shows the fields that filter the list of sites.
        The fields are shown if the list is incomplete, if sites have tags, or if a search is active.
        """
        return bool(self.left_out or self.search or self.tags)

    def _offer(self, sites: QuerySet[Site]) -> None:
        """Limit the sites on the page to at most OFFERED chosen sites, and at most OFFERED sites that are not chosen.
        `left_out` counts all remaining sites.
        """
        chosen = self.data.getlist("sites") if isinstance(self.data, QueryDict) else self.initial.get("sites", [])
        kept = list(sites.filter(name__in=chosen[:OFFERED]))
        fits = Q(name__icontains=self.search) | Q(web_server__host__name__icontains=self.search)
        found = (sites_tagged(sites, self.tag) if self.tag else sites).filter(fits).exclude(name__in=chosen)
        self.offered = kept + list(found[:OFFERED])
        self.left_out = found.count() - len(self.offered) + len(kept)
        if len(self.offered) == 1 and not self.search and not self.tag:
            self.initial.setdefault("sites", [self.offered[0].name])
        choices = [(site.name, site_label(site)) for site in self.offered]
        for name, first in (("sites", []), ("baseline", [("", _("First selected site"))])):
            field = self.fields[name]
            assert isinstance(field, forms.ModelChoiceField)
            field.choices = [*first, *choices]

    def clean(self) -> dict[str, object]:
        data = self.cleaned_data
        baseline, sites = data.get("baseline"), list(data.get("sites") or [])
        if baseline and sites and baseline not in sites:
            self.add_error("baseline", _("Choose one of the sites above."))
        self.ordered = sorted(sites, key=lambda site: site != baseline) if baseline else sites
        return data


class AskedSites(TypedDict):
    """Filter values of a page with a SitesForm: the search text and the tag."""

    search: str
    tag: str


def asked_sites(request: HttpRequest) -> AskedSites:
    """Return the filter values of a page with a SitesForm from the query parameters `q` and `tag`."""
    return {"search": request.GET.get("q", "")[:100], "tag": request.GET.get("tag", "")}


def numbers_from(text: str) -> list[int]:
    words = text.replace(",", " ").split()
    wrong = [word for word in words if not (word.isascii() and word.isdecimal() and len(word) < 8)]
    if wrong:
        raise ValidationError(
            _("“%(word)s” is not a number. Enter numbers such as 1 2 4 8."), params={"word": wrong[0][:20]}
        )
    return [int(word) for word in words]


def offer_rows(field: forms.Field, rows: QuerySet[Any]) -> None:
    assert isinstance(field, forms.ModelChoiceField)
    field.queryset = rows


class RunForm(SitesForm):
    scenario = forms.ModelChoiceField(
        Scenario.objects.none(),
        label=_("Scenario"),
        empty_label=_("Choose a scenario"),
        error_messages={"required": _("Choose a scenario for the load.")},
    )
    concurrencies = LinesField(
        label=_("Numbers of concurrent connections"),
        to_text=lambda numbers: " ".join(str(number) for number in numbers),
        from_text=numbers_from,
        rows=1,
        help_text=_("For example `1 2 4 8 16 32`, to compare throughput by concurrency. Leave empty for one run."),
    )
    title = forms.CharField(label=_("Title"), max_length=200, required=False)

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, user=user, **kwargs)
        offer_rows(self.fields["scenario"], selectors.scenarios_visible(user))


def site_label(site: Site) -> str:
    return f"{site.name} – {site.web_server}" if site.web_server else site.name


class RunFilterForm(Form):
    q = forms.CharField(
        label=_("Search runs"), required=False, widget=forms.SearchInput(attrs={"placeholder": _("Search runs")})
    )
    status = forms.ChoiceField(label=_("Status"), required=False, choices=[("", _("Any")), *RunStatus.choices])
    scenario = forms.ModelChoiceField(
        Scenario.objects.none(), label=_("Scenario"), required=False, empty_label=_("Any")
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["scenario"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = selectors.scenarios_visible(user)


# --- suites ---


_SAME_HOST = _("same host as the web servers")


def suite_fields(suite: Suite, kept: Sequence[str] = ()) -> dict[str, forms.Field]:
    """Return the form fields to choose a part of the suite. An empty selection means everything.
    `kept`: cases that are already chosen. The form offers them in addition to the published cases, because a choice
    made by the API can contain single rows of a published table.
    """
    cases = choosing.groups(suite.full) | {name: choosing.title(suite, name) for name in kept}
    fields: dict[str, forms.Field] = {}
    if suite.applications:
        named = [(item.slug, f"{item.label}: {item.about}") for item in suite.applications]
        first = suite.applications[0].slug
        fields["application"] = forms.ChoiceField(
            label=_("Application"), choices=named, initial=first, required=False, widget=forms.RadioSelect
        )
        fields["paths"] = LinesField(
            label=_("Custom pages"),
            help_text=_(
                "Paths of the application, one per line, for example `/shop/`. Custom "
                "pages replace the suite's own list."
            ),
        )
    fields["cases"] = _ticks(_("Cases"), cases)
    spoken = choosing.protocols(suite.full)
    if len(spoken) > 1:
        fields["protocols"] = _ticks(_("Protocols"), {name: PROTOCOLS[name] for name in spoken})
    fields["setups"] = _ticks(_("Web servers"), {setup.slug: setup.label for setup in suite.setups})
    return fields | _link_fields()


def _link_fields() -> dict[str, forms.Field]:
    """Return the form fields of a custom network link, of the link emulation, and of the load generator's host.
    If the user leaves all fields of the link empty, the cases use the links of the suite.
    """
    fields: dict[str, forms.Field] = {}
    for name, (label, _low, _high) in links.LIMITS.items():
        kind = forms.IntegerField if name == "queue_packets" else forms.FloatField
        # A text field, so that invalid numbers get a message; the common check knows the limits.
        fields[name] = kind(label=label, required=False, widget=forms.TextInput(attrs={"inputmode": "decimal"}))
    fields["queue_packets"].help_text = _("Leave empty for a queue of 1000 packets.")
    carriers = [(name, words[0].upper() + words[1:]) for name, words in links.CARRIERS.items()]
    fields["link"] = forms.ChoiceField(
        label=_("Link emulation"), choices=carriers, required=False, widget=forms.RadioSelect, initial=""
    )
    fields["load_from"] = forms.ChoiceField(
        label=_("Host of the load generator"),
        choices=[("", _SAME_HOST)],
        required=False,
        help_text=_(
            "With another host, Paddock emulates the link between the two hosts. "
            "Paddock must manage both hosts over SSH."
        ),
    )
    return fields


def offer_load_hosts(fields: Mapping[str, forms.Field], user: User) -> None:
    """Offer the hosts on which the load generator can run: all hosts with an SSH connection that the user can see."""
    field = fields["load_from"]
    assert isinstance(field, forms.ChoiceField)
    hosts = hosts_visible(user).exclude(connection=Connection.LOCAL).order_by("name")
    field.choices = [("", _SAME_HOST), *((name, name) for name in hosts.values_list("name", flat=True))]


def _network(data: Mapping[str, Any]) -> Network | None:
    given = {name: data[name] for name in links.LIMITS if data.get(name) is not None}
    return Network(**{"bandwidth_mbps": math.nan, "rtt_ms": 0.0, **given}) if given else None


def _ticks(label: Any, choices: Mapping[str, str]) -> forms.Field:
    return forms.MultipleChoiceField(
        label=label, choices=list(choices.items()), required=False, widget=forms.CheckboxSelectMultiple
    )


def suite_choice(data: Mapping[str, Any]) -> Choice:
    """Return the part of a suite that the user chose, from the cleaned data of a form with `suite_fields`."""
    return Choice(
        tuple(data.get("cases") or ()),
        tuple(data.get("protocols") or ()),
        data.get("application") or "",
        tuple(data.get("paths") or ()),
        _network(data),
        data.get("link") or "",
        data.get("load_from") or "",
    )


class SuiteForm(Form):
    """Form to start a suite by hand. The ids of its HTML elements begin with the suite's slug, so that a page can show
    several forms.
    """

    def __init__(self, *args: Any, suite: Suite, user: User, kept: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "auto_id": f"{suite.slug}-%s"})
        self.fields |= suite_fields(suite, kept)
        offer_load_hosts(self.fields, user)

    @property
    def choice(self) -> Choice:
        return suite_choice(self.cleaned_data)

    @property
    def setups(self) -> list[str]:
        return list(self.cleaned_data["setups"])

    @property
    def wrong(self) -> str:
        """All errors of the form in one line, each after the label of its field."""
        return " ".join(f"{self[name].label}: {words}" for name, found in self.errors.items() for words in found)
