"""Sites as a whole: the list's filters, the wizard, and what is changed later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.forms import Form, LinesField, TagFilterField, TagsFormField
from panel.core.tags import tags_counted
from panel.deployments.models import SiteStatus
from panel.hosts.forms import ServerChoiceField
from panel.hosts.models import Engine, EngineInstall, Host
from panel.websites import lines, validators
from panel.websites.forms.base import PartForm
from panel.websites.models import Certificate, Site

ANY = ("", _("Any"))


def _install_choice() -> forms.Field:
    return ServerChoiceField(label=_("Runs on"), required=False, empty_label=_("Decide later"))


class SiteFilterForm(Form):
    q = forms.CharField(
        label=_("Search sites and domains"),
        required=False,
        max_length=100,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": _("Search sites and domains")}),
    )
    status = forms.ChoiceField(
        label=_("Status"), required=False, choices=[ANY, *SiteStatus.choices, ("pending", _("Changed since deployed"))]
    )
    engine = forms.ChoiceField(label=_("Server"), required=False, choices=[ANY, *Engine.choices])
    host = forms.ModelChoiceField(
        label=_("Host"), required=False, queryset=Host.objects.all(), to_field_name="name", empty_label=_("Any")
    )
    team = forms.ModelChoiceField(
        label=_("Team"), required=False, queryset=Team.objects.none(), to_field_name="slug", empty_label=_("Any")
    )

    tag = TagFilterField()

    def __init__(self, *args: Any, teams: QuerySet[Team], tags: Iterable[str], **kwargs: Any) -> None:
        """`tags`: those that the list's sites and their hosts have."""
        super().__init__(*args, **kwargs)
        choice, tag = self.fields["team"], self.fields["tag"]
        assert isinstance(choice, forms.ModelChoiceField) and isinstance(tag, TagFilterField)
        choice.queryset = teams
        tag.offer(tags)


class Kind:
    STATIC, PHP, PROXY, REDIRECT = "static", "php", "proxy", "redirect"
    choices = [
        (STATIC, _("Files")),
        (PHP, _("PHP")),
        (PROXY, _("Proxy")),
        (REDIRECT, _("Redirect")),
    ]
    details = {
        STATIC: _("A folder of pages, pictures and scripts for the browser"),
        PHP: _("A PHP program such as WordPress"),
        PROXY: _("A program that listens on a port or socket"),
        REDIRECT: _("Leads every request elsewhere"),
    }


class SiteCreateForm(Form):
    """A whole first site: what `panel.websites.forms.wizard` turns into a definition."""

    kind = forms.ChoiceField(
        label=_("What answers?"), choices=Kind.choices, initial=Kind.STATIC, widget=forms.RadioSelect
    )
    name = forms.CharField(
        label=_("Name"),
        max_length=63,
        error_messages={"required": _("Write a name for the site, such as shop.")},
        validators=[validators.validate_slug],
        help_text=_("Small letters, digits and hyphens. Names the site's files on the host."),
    )
    domains = LinesField(
        label=_("Domains"),
        rows=2,
        to_text=lines.names_to_text,
        from_text=lines.names_from_text,
        help_text=_("One a line. None: it answers whatever no other site does."),
    )
    team = forms.ModelChoiceField(
        label=_("Team"),
        queryset=Team.objects.none(),
        empty_label=_("Choose a team"),
        error_messages={"required": _("Choose the team that the site belongs to.")},
    )
    install = _install_choice()
    root = forms.CharField(
        label=_("Folder"),
        required=False,
        max_length=500,
        help_text=_("Empty: a folder of the site's name below the host's first folder for sites."),
    )
    php_address = forms.CharField(
        label=_("PHP listens on"),
        required=False,
        max_length=300,
        help_text=_("A pool that runs already: unix:/run/php/php8.2-fpm.sock or 127.0.0.1:9000"),
    )
    upstream = forms.CharField(
        label=_("The program listens on"),
        required=False,
        max_length=300,
        help_text=_("127.0.0.1:3000, [::1]:3000 or unix:/run/app.sock"),
    )
    redirect_to = forms.CharField(
        label=_("Leads to"),
        required=False,
        max_length=900,
        help_text=_("https://www.example.com: the path is added. End it with / to leave the path away."),
    )
    port = forms.IntegerField(label=_("Port"), initial=80, min_value=1, max_value=65535)
    tls = forms.ChoiceField(label=_("HTTPS"), required=False)

    def __init__(self, *args: Any, teams: QuerySet[Team], certificates: QuerySet[Certificate], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        team = self.fields["team"]
        tls = self.fields["tls"]
        assert isinstance(team, forms.ModelChoiceField) and isinstance(tls, forms.ChoiceField)
        team.queryset = teams
        if teams.count() == 1:
            team.empty_label, team.initial = None, teams.get()
        own = [(f"certificate:{row.name}", gettext("with the certificate %s") % row.name) for row in certificates]
        tls.choices = [("", _("No, plain HTTP")), ("self_signed", _("with a new self-signed certificate")), *own]
        self.certificates = {row.name: row for row in certificates}

    def clean_domains(self) -> list[str]:
        return validators.server_names_normalized(self.cleaned_data["domains"])

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if Site.objects.filter(name=name).exists():
            raise ValidationError(gettext("There is already a site named %s: choose another name.") % name)
        return name

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        kind = data.get("kind")
        checks: dict[str, tuple[str, Any, str]] = {
            Kind.PHP: ("php_address", validators.validate_upstream_address, gettext("Write where PHP listens.")),
            Kind.PROXY: ("upstream", validators.validate_upstream_address, gettext("Write where the program listens.")),
            Kind.REDIRECT: ("redirect_to", _validate_target, gettext("Write where every request is led to.")),
        }
        if kind in checks:
            self._check(*checks[kind])
        if kind in (Kind.STATIC, Kind.PHP):
            self._check_root(data)
        if data.get("tls") == "self_signed" and not _certifiable(data.get("domains", [])):
            self.add_error("tls", gettext("A certificate needs a domain: write one above."))
        return data

    def _check(self, field: str, validate: Any, missing: str) -> None:
        value = self.cleaned_data.get(field)
        if not value:
            self.add_error(field, missing)
            return
        try:
            validate(value)
        except ValidationError as error:
            self.add_error(field, error)

    def _check_root(self, data: dict[str, Any]) -> None:
        install, name = data.get("install"), data.get("name")
        if data.get("root"):
            self._check("root", validators.validate_path, "")
        elif install and install.host.site_roots and name:
            data["root"] = f"{install.host.site_roots[0].rstrip('/')}/{name}"
        elif name:
            self.add_error("root", gettext("Write the folder with the site's files, such as /srv/www/%s.") % name)


def _validate_target(value: str) -> None:
    validators.validate_line(value)
    if not value.startswith(("http://", "https://")) or " " in value or len(value) < len("http://a"):
        raise ValidationError(gettext("Write a whole address: https://www.example.com"))


def _certifiable(domains: list[str]) -> list[str]:
    """The names that a certificate can hold."""
    found: list[str] = []
    for name in domains:
        if name.startswith("."):
            found += [name[1:], f"*{name}"]
        elif not name.startswith("~") and not name.endswith(".*"):
            found.append(name)
    return found


def certifiable_names(form: SiteCreateForm) -> list[str]:
    return _certifiable(form.cleaned_data["domains"])


class SiteEditForm(PartForm[Site]):
    tags = TagsFormField(label=_("Tags"))

    class Meta:
        model = Site
        fields = ("name", "team", "health_path", "cache_mb", "tags", "notes")
        labels = {"health_path": _("Health page"), "cache_mb": _("Largest cache, MB"), "notes": _("Notes")}
        help_texts = {
            "name": _("Names the site's files on the host."),
            "health_path": _("Asked after every deployment: an answer below 500 proves that the site is up."),
            "cache_mb": _("Of the answers that its locations keep."),
        }
        widgets = {"notes": forms.Textarea(attrs={"rows": 4})}

    def __init__(self, *args: Any, teams: QuerySet[Team], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choice = self.fields["team"]
        assert isinstance(choice, forms.ModelChoiceField)
        choice.queryset = teams
        choice.empty_label = None
        tags = self.fields["tags"]
        assert isinstance(tags, TagsFormField)
        tags.tell_known(tags_counted(Site.objects.filter(team__in=teams)))
        self.fields["cache_mb"].required = False  # empty: as it was

    def clean_cache_mb(self) -> int:
        kept: int = self.instance.cache_mb
        return self.cleaned_data["cache_mb"] or kept


class SiteCloneForm(Form):
    name = forms.CharField(
        label=_("Name of the copy"),
        max_length=63,
        validators=[validators.validate_slug],
        error_messages={"required": _("Write a name for the copy, such as shop-2.")},
    )
    domains = LinesField(
        label=_("Domains of the copy"),
        to_text=lines.names_to_text,
        from_text=lines.names_from_text,
        help_text=_(
            "They take the place of the original's names. None: the copy keeps them, and starts disabled unless it "
            "has another server or port."
        ),
    )
    install = ServerChoiceField(label=_("Runs on"), required=False, empty_label=_("The original's server"))
    port = forms.IntegerField(
        label=_("Port"),
        required=False,
        min_value=1,
        max_value=65535,
        help_text=_(
            "Of what it listens on without TLS. Empty: the original's. Two servers of a host cannot share one."
        ),
    )

    def clean_domains(self) -> list[str]:
        return validators.server_names_normalized(self.cleaned_data["domains"])


class SiteServerForm(Form):
    install = _install_choice()

    def leave(self, install: EngineInstall | None) -> None:
        """For a site whose files lie on the host of `install`: it can be moved away, not left without a server."""
        field = self.fields["install"]
        assert isinstance(field, ServerChoiceField)
        field.label = _("Move to")
        field.empty_label = _("Choose a server")
        if install and field.queryset is not None:
            field.queryset = field.queryset.exclude(pk=install.pk)


class SitesMoveForm(Form):
    install = ServerChoiceField(
        label=_("Move to"),
        empty_label=_("Choose a server"),
        error_messages={"required": _("Choose the server that shall serve them.")},
    )
