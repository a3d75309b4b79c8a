"""Form to start a server comparison: the web servers and the load."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import User
from panel.benchmarks.scenarios.ready_made import QUICK
from panel.comparisons import selectors, services
from panel.core.forms import Form
from panel.hosts.models import WebServer
from panel.websites.models import Site

OF_REPLAY = ("queries", "other_methods", "concurrency", "duration_s", "rounds")


class ComparisonForm(Form):
    web_servers = forms.ModelMultipleChoiceField(
        WebServer.objects.none(),
        label=_("Web servers to compare"),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": _("Choose at least one other web server.")},
    )
    load = forms.ChoiceField(
        label=_("Load"), help_text=_("Every web server gets the same load, alternating round by round.")
    )
    queries = forms.BooleanField(
        label=_("Replay query strings"),
        required=False,
        help_text=_("Query strings can contain visitors' secrets. If off, Paddock requests only the paths."),
    )
    other_methods = forms.BooleanField(
        label=_("Replay POST, DELETE, and OPTIONS requests"),
        required=False,
        help_text=_(
            "Warning: this can change or delete data of the application. Each request is sent "
            "repeatedly with an empty body to every web server. PUT and PATCH requests are skipped."
        ),
    )
    concurrency = forms.IntegerField(label=_("Concurrent connections"), initial=16, min_value=1, max_value=1000)
    duration_s = forms.IntegerField(label=_("Seconds per round"), initial=10, min_value=1, max_value=600)
    rounds = forms.IntegerField(
        label=_("Rounds"),
        initial=6,
        min_value=3,
        max_value=30,
        help_text=_("Intervals reach 95 % confidence with 6 or more rounds."),
    )

    def __init__(self, *args: Any, user: User, site: Site, has_log: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user, self.site = user, site
        web_servers = self.fields["web_servers"]
        assert isinstance(web_servers, forms.ModelMultipleChoiceField)
        web_servers.queryset = selectors.candidates(site)
        # A stopped server would be started with its own sites, so it is selected only by the user.
        web_servers.initial = [web_server for web_server in web_servers.queryset if web_server.is_running]
        load = self.fields["load"]
        assert isinstance(load, forms.ChoiceField)
        load.choices = _load_choices(user, has_log)
        if not has_log:
            for name in OF_REPLAY:
                del self.fields[name]

    def frozen(self) -> services.Chosen:
        """Return the chosen load in the format of a comparison. Raises the errors of services.load_chosen."""
        data = self.cleaned_data
        replay = {name: data[name] for name in OF_REPLAY if name in data}
        return services.load_chosen(actor=self.user, site=self.site, choice=data["load"], **replay)


def _load_choices(user: User, has_log: bool) -> list[tuple[Any, Any]]:
    own = [(services.REPLAY, _("Recent visitor requests from the site's access log"))] if has_log else []
    scenarios = [(f"scenario:{row.pk}", f"{row.name} ({row.tool})") for row in selectors.loads(user)]
    ready = [(f"quick:{quick.slug}", quick.name) for quick in QUICK]
    groups: list[tuple[Any, Any]] = [(_("Scenarios"), scenarios)] if scenarios else []
    return [*own, *groups, (_("Built-in"), ready)]
