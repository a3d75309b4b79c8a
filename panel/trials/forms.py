"""What the page of a site asks: which servers to try, and with which load."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import User
from panel.benchmarks.models import Scenario
from panel.benchmarks.quick import BY_SLUG, QUICK
from panel.hosts.models import EngineInstall
from panel.trials import selectors, services
from panel.websites.models import Site

REPLAY = "replay"
OF_REPLAY = ("queries", "concurrency", "duration_s", "rounds")


class TrialForm(forms.Form):
    installs = forms.ModelMultipleChoiceField(
        EngineInstall.objects.none(),
        label=_("Servers to try"),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": _("Choose at least one other server to try.")},
    )
    load = forms.ChoiceField(label=_("Load"), help_text=_("The same for every server, in turns, round by round."))
    queries = forms.BooleanField(
        label=_("Replay with query strings"),
        required=False,
        help_text=_("They may hold secrets of visitors; without them each path is asked for as such."),
    )
    concurrency = forms.IntegerField(label=_("Connections at once"), initial=16, min_value=1, max_value=1000)
    duration_s = forms.IntegerField(label=_("Seconds of each round"), initial=10, min_value=1, max_value=600)
    rounds = forms.IntegerField(
        label=_("Rounds"),
        initial=6,
        min_value=3,
        max_value=30,
        help_text=_("From 6 on intervals are 95 % sure."),
    )

    def __init__(self, *args: Any, user: User, site: Site, has_log: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user, self.site = user, site
        installs = self.fields["installs"]
        assert isinstance(installs, forms.ModelMultipleChoiceField)
        installs.queryset = selectors.candidates(site)
        installs.initial = list(installs.queryset)
        load = self.fields["load"]
        assert isinstance(load, forms.ChoiceField)
        load.choices = _load_choices(user, has_log)
        if not has_log:
            for name in OF_REPLAY:
                del self.fields[name]

    def clean_load(self) -> Scenario | None:
        """None: the site's own log."""
        kind, _colon, key = str(self.cleaned_data["load"]).partition(":")
        if kind == "quick":
            return Scenario(**BY_SLUG[key].values())
        if kind == "scenario":
            return selectors.loads(self.user).get(pk=int(key))
        return None

    def frozen(self) -> dict[str, Any]:
        """The load as a trial takes it. Raises what services.load_of and load_from_log raise."""
        data = self.cleaned_data
        scenario: Scenario | None = data["load"]
        if scenario is not None:
            try:
                return services.load_of(scenario)
            except ValidationError as error:
                raise ValidationError({"load": error.messages}) from error
        chosen = {name: data[name] for name in OF_REPLAY}
        return services.load_from_log(actor=self.user, site=self.site, **chosen)


def _load_choices(user: User, has_log: bool) -> list[tuple[Any, Any]]:
    own = [(REPLAY, _("What visitors asked for lately: the site's own access log"))] if has_log else []
    scenarios = [(f"scenario:{row.pk}", f"{row.name} ({row.tool})") for row in selectors.loads(user)]
    ready = [(f"quick:{quick.slug}", quick.name) for quick in QUICK]
    groups: list[tuple[Any, Any]] = [(_("Scenarios"), scenarios)] if scenarios else []
    return [*own, *groups, (_("Ready-made"), ready)]
