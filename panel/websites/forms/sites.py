"""Forms of whole sites: filters of the list, the wizard for new sites, and later changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.forms import Form, LinesField, NameChoiceField, TagFilterField, TagsFormField
from panel.core.tags import tags_counted
from panel.hosts.forms import ServerChoiceField
from panel.hosts.models import Engine, Host, WebServer
from panel.websites import lines, validators
from panel.websites.forms.base import PartForm
from panel.websites.listing import STATUSES
from panel.websites.models import Certificate, Site
from panel.websites.presets import PRESETS
from panel.websites.selectors import has_site_named, sites_of_teams

KINDS = [(name, preset.label) for name, preset in PRESETS.items()]
ANY = ("", _("Any"))


def _web_server_choice() -> forms.Field:
    return ServerChoiceField(label=_("Web server"), required=False, empty_label=_("Decide later"))


class SiteFilterForm(Form):
    q = forms.CharField(
        label=_("Search sites and domains"),
        required=False,
        max_length=100,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": _("Search sites and domains")}),
    )
    status = forms.ChoiceField(
        label=_("Status"),
        required=False,
        choices=[ANY, *STATUSES],
    )
    engine = forms.ChoiceField(label=_("Web server"), required=False, choices=[ANY, *Engine.choices])
    host = NameChoiceField(
        label=_("Host"),
        required=False,
        queryset=Host.objects.none(),
        to_field_name="name",
        empty_label=_("Any"),
    )
    team = forms.ModelChoiceField(
        label=_("Team"), required=False, queryset=Team.objects.none(), to_field_name="slug", empty_label=_("Any")
    )

    tag = TagFilterField()

    def __init__(
        self, *args: Any, teams: QuerySet[Team], hosts: QuerySet[Host], tags: Iterable[str], **kwargs: Any
    ) -> None:
        """Offer the given teams and hosts as filters. `tags` are the tags of the listed sites and their hosts."""
        super().__init__(*args, **kwargs)
        choice, host, tag = self.fields["team"], self.fields["host"], self.fields["tag"]
        assert isinstance(choice, forms.ModelChoiceField) and isinstance(tag, TagFilterField)
        assert isinstance(host, forms.ModelChoiceField)
        choice.queryset, host.queryset = teams, hosts.only("name")
        tag.offer(tags)


class SiteCreateForm(Form):
    """Wizard form for a new site; `panel.websites.forms.wizard` converts its values to a definition."""

    kind = forms.ChoiceField(label=_("Content"), choices=KINDS, initial="static", widget=forms.RadioSelect)
    name = forms.CharField(
        label=_("Name"),
        max_length=63,
        error_messages={"required": _("Enter a name for the site, for example shop.")},
        validators=[validators.validate_slug],
        help_text=_(
            "Lowercase letters, digits, and hyphens, for example `shop`. The site's files on the host have this name."
        ),
    )
    domains = LinesField(
        label=_("Domains"),
        rows=2,
        to_text=lines.names_to_text,
        from_text=lines.names_from_text,
        help_text=_("One per line, for example `www.example.com`. Leave empty to make this the default site."),
    )
    team = forms.ModelChoiceField(
        label=_("Team"),
        queryset=Team.objects.none(),
        empty_label=_("Choose a team"),
        error_messages={"required": _("Choose the team that owns the site.")},
    )
    web_server = _web_server_choice()
    root = forms.CharField(
        label=_("Folder"),
        required=False,
        max_length=500,
        help_text=_("Leave empty to use a folder with the site's name in the host's first site folder."),
    )
    php_address = forms.CharField(
        label=_("Address of the PHP pool"),
        required=False,
        max_length=300,
        help_text=_("Address of a running pool, for example `unix:/run/php/php8.2-fpm.sock` or `127.0.0.1:9000`."),
    )
    upstream = forms.CharField(
        label=_("Address of the application"),
        required=False,
        max_length=300,
        help_text=_("For example `127.0.0.1:3000`, `[::1]:3000`, or `unix:/run/app.sock`."),
    )
    redirect_to = forms.CharField(
        label=_("Redirect target"),
        required=False,
        max_length=900,
        help_text=_(
            "For example `https://www.example.com`. The request path is appended; end the target with `/` "
            "to drop the path."
        ),
    )
    port = forms.IntegerField(label=_("Port"), initial=80, min_value=1, max_value=65535)
    tls = forms.ChoiceField(label=_("HTTPS"), required=False)
    ipv6 = forms.BooleanField(
        label=_("IPv6 too"), required=False, help_text=_("If the host has no IPv6, Paddock rolls the deployment back.")
    )

    def __init__(self, *args: Any, teams: QuerySet[Team], certificates: QuerySet[Certificate], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["php_address"].widget.attrs["list"] = "php-sockets"
        team = self.fields["team"]
        tls = self.fields["tls"]
        assert isinstance(team, forms.ModelChoiceField) and isinstance(tls, forms.ChoiceField)
        team.queryset = teams
        if teams.count() == 1:
            team.empty_label, team.initial = None, teams.get()
        own = [(f"certificate:{row.name}", gettext("with the certificate %s") % row.name) for row in certificates]
        tls.choices = [("", _("No, HTTP only")), ("self_signed", _("with a new self-signed certificate")), *own]
        self.certificates = {row.name: row for row in certificates}

    def clean_domains(self) -> list[str]:
        return validators.server_names_normalized(self.cleaned_data["domains"])

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if has_site_named(name):
            raise ValidationError(gettext("A site named %s already exists. Choose another name.") % name)
        return name

    def clean(self) -> dict[str, object]:
        data = super().clean() or self.cleaned_data
        preset = PRESETS.get(str(data.get("kind")))
        checks: dict[str, tuple[Any, str]] = {
            "php_address": (
                validators.validate_upstream_address,
                gettext("Enter the address of the PHP pool, for example unix:/run/php/php8.2-fpm.sock."),
            ),
            "upstream": (
                validators.validate_upstream_address,
                gettext("Enter the address of the application, for example 127.0.0.1:3000."),
            ),
            "redirect_to": (
                _validate_target,
                gettext("Enter the redirect target, for example https://www.example.com."),
            ),
        }
        for name in preset.needs if preset else ():
            if name == "root":
                self._check_root(data)
            else:
                self._check(name, *checks[name])
        if data.get("tls") == "self_signed" and not _certifiable(data.get("domains", [])):
            self.add_error("tls", gettext("A certificate needs a domain. Enter a domain in the field Domains."))
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
        web_server, name = data.get("web_server"), data.get("name")
        if data.get("root"):
            self._check("root", validators.validate_path, "")
        elif web_server and web_server.host.site_roots and name:
            data["root"] = f"{web_server.host.site_roots[0].rstrip('/')}/{name}"
        elif name:
            self.add_error("root", gettext("Enter the folder with the site's files, for example /srv/www/%s.") % name)


def _validate_target(value: str) -> None:
    validators.validate_line(value)
    if not value.startswith(("http://", "https://")) or " " in value or len(value) < len("http://a"):
        raise ValidationError(gettext("Enter a complete URL, for example https://www.example.com"))


def _certifiable(domains: list[str]) -> list[str]:
    """Return the names that a certificate can contain: `.example.com` becomes `example.com` and `*.example.com`;
    regular expressions and `www.*` are left out.
    """
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
        fields = (
            "name", "team", "health_path", "health_status", "health_text", "health_header", "watched_from_panel",
            "cache_mb", "tags", "notes"
        )  # fmt: skip
        labels = {
            "health_path": _("Health page"),
            "health_status": _("Expected status"),
            "health_text": _("Expected text"),
            "health_header": _("Request header"),
            "watched_from_panel": _("Request the health page from the panel too"),
            "cache_mb": _("Maximum cache size, MB"),
            "notes": _("Notes"),
        }
        help_texts = {
            "name": _("The site's files on the host have this name, for example `shop`."),
            "health_path": _("Paddock requests this path before and after every deployment. For example `/health`."),
            "health_status": _("Leave empty to accept every status below 400."),
            "health_text": _("Text that the health page must contain. For example `status: ok`."),
            "health_header": _(
                "Paddock sends this header to the health page. For example `X-Check: paddock`. Do not enter secrets."
            ),
            "watched_from_panel": _("Turn this off for a site that the panel cannot reach at its host's address."),
            "cache_mb": _("Maximum size of the cached responses of all locations, together."),
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
        tags.tell_known(tags_counted(sites_of_teams(teams)))
        self.fields["cache_mb"].required = False  # empty: unchanged

    def clean_cache_mb(self) -> int:
        kept: int = self.instance.cache_mb
        return self.cleaned_data["cache_mb"] or kept


class SiteCloneForm(Form):
    name = forms.CharField(
        label=_("Name of the copy"),
        max_length=63,
        validators=[validators.validate_slug],
        error_messages={"required": _("Enter a name for the copy, for example shop-2.")},
    )
    domains = LinesField(
        label=_("Domains of the copy"),
        to_text=lines.names_to_text,
        from_text=lines.names_from_text,
        help_text=_(
            "The copy has these domains instead of the original's. Leave empty to copy the original's domains; "
            "the copy is then disabled, unless its web server or port differs."
        ),
    )
    web_server = ServerChoiceField(label=_("Web server"), required=False, empty_label=_("Same as the original"))
    port = forms.IntegerField(
        label=_("Port"),
        required=False,
        min_value=1,
        max_value=65535,
        help_text=_(
            "HTTP port of the copy. Leave empty to keep the port of the original. Two web servers on a host cannot "
            "share a port."
        ),
    )

    def clean_domains(self) -> list[str]:
        return validators.server_names_normalized(self.cleaned_data["domains"])


class SiteServerForm(Form):
    web_server = _web_server_choice()
    php_version = forms.CharField(
        label=_("PHP version"),
        required=False,
        max_length=5,
        help_text=_(
            "For the site's PHP-FPM pool on another host, for example `8.2`. Leave empty to keep the present version."
        ),
    )

    def leave(self, web_server: WebServer | None) -> None:
        """Prepare the form for the move of a site with files on a host: its `web_server` is not among the choices."""
        field = self.fields["web_server"]
        assert isinstance(field, ServerChoiceField)
        field.label = _("Move to")
        field.empty_label = _("Choose a web server")
        if web_server and field.queryset is not None:
            field.queryset = field.queryset.exclude(pk=web_server.pk)


class SitesMoveForm(Form):
    web_server = ServerChoiceField(
        label=_("Move to"),
        empty_label=_("Choose a web server"),
        error_messages={"required": _("Choose the new web server for these sites.")},
    )
