"""Forms for hosts, for SSH certificate authorities, and for searches in logs; a form field to choose a web server."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team, User
from panel.core.forms import Form, InWords, LinesField, TagFilterField, TagsFormField, leave_to_model
from panel.core.tags import tags_to_text
from panel.hosts import rules
from panel.hosts.authorities import user_authorities
from panel.hosts.logs import Search
from panel.hosts.models import AuthorityKind, Connection, Engine, Host, HostStatus, WebServer
from panel.hosts.observing import UNOBSERVED
from panel.hosts.selectors import host_tags, hosts_over_ssh, tags_of_all_hosts, web_servers_visible

ANY = ("", _("Any"))
_STATUSES = [*HostStatus.choices, (UNOBSERVED, _("Not observed"))]
_SECRET = {"autocomplete": "new-password", "spellcheck": "false"}


class LogSearchForm(Form):
    """Form for a search in a log. `log` is the key of the log; `day` is a day in the user's time zone."""

    log = forms.CharField(required=False, widget=forms.HiddenInput)
    text = forms.CharField(
        label=_("Search the log"),
        required=False,
        strip=False,
        max_length=500,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": _("Text in a line, for example an IP address")}),
    )
    day = forms.DateField(label=_("Day"), widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"))

    def clean_day(self) -> dt.date:
        day: dt.date = self.cleaned_data["day"]
        if not 2000 <= day.year <= 2100:
            raise forms.ValidationError(_("Choose a day between 2000 and 2100."))
        return day

    @property
    def search(self) -> Search:
        """Return the Search with the day and the text that the user entered. The form must be valid."""
        return Search(self.cleaned_data["day"], self.cleaned_data["text"])


class HostFilterForm(Form):
    q = forms.CharField(
        label=_("Search hosts"),
        required=False,
        max_length=100,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": _("Search names and addresses")}),
    )
    status = forms.ChoiceField(label=_("Status"), required=False, choices=[ANY, *_STATUSES])
    engine = forms.ChoiceField(label=_("Web server"), required=False, choices=[ANY, *Engine.choices])
    tag = TagFilterField()

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tag = self.fields["tag"]
        assert isinstance(tag, TagFilterField)
        tag.offer(host_tags(user))


class ServerChoiceField(forms.ModelChoiceField):  # type: ignore[type-arg] # not subscriptable when it runs
    """Field to choose a web server. Each choice also has the tags of its host; long lists can be filtered by text or
    tag.

    The field has no choices until `offer` is called.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            queryset=WebServer.objects.none(),
            widget=forms.Select(attrs={"data-narrow": _("Filter by name or tag")}),
            **kwargs,
        )

    def offer(self, user: User) -> None:
        """Set the choices: the web servers of hosts that the user can see."""
        self.queryset = web_servers_visible(user)

    def label_from_instance(self, obj: WebServer) -> str:
        return f"{obj} · {tags_to_text(obj.host.tags)}" if obj.host.tags else str(obj)


def offer_web_servers(form: forms.BaseForm, user: User) -> None:
    """Set the choices of a form's field `web_server`: the web servers of hosts that the user can see."""
    field = form.fields["web_server"]
    assert isinstance(field, ServerChoiceField)
    field.offer(user)


class AuthorityForm(Form):
    """Form to add an SSH certificate authority."""

    name = forms.CharField(
        label=_("Name"),
        max_length=63,
        help_text=_("Lowercase letters, digits, and hyphens, for example `hosts-2026`."),
    )
    kind = forms.ChoiceField(label=_("Purpose"), choices=AuthorityKind.choices)
    public_key = forms.CharField(
        label=_("Public key"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "lines", "spellcheck": "false"}),
        help_text=_(
            "For an authority that signs host keys: the line from known_hosts or from the .pub file, for example "
            "`ssh-ed25519 AAAA...`. Leave empty for an authority that signs Paddock's keys; Paddock creates this "
            "key."
        ),
    )


class HostForm(InWords, forms.ModelForm):  # type: ignore[type-arg] # not subscriptable when it runs
    """Form to add or edit a host. Stored secrets are never shown; an empty secret keeps the stored one."""

    SECRETS = ("private_key", "password", "sudo_password")

    site_roots = LinesField(
        label=_("Site folders"),
        required=True,
        error_messages={"required": rules.NO_ROOTS},
        help_text=_(
            "One per line, for example `/srv/www`. Document roots and logs of sites must be inside these folders."
        ),
    )
    private_key = forms.CharField(
        label=_("Private key"),
        required=False,
        widget=forms.Textarea(attrs=_SECRET | {"rows": 6, "class": "lines", "data-secret": ""}),
        help_text=_(
            "OpenSSH or PEM format, without passphrase. You can enter several keys, which Paddock tries in order. "
            "Keys are stored encrypted and not shown again. If you enter neither a key nor a password, Paddock "
            "creates a key."
        ),
    )
    password = forms.CharField(
        label=_("Password"), required=False, strip=False, widget=forms.PasswordInput(attrs=_SECRET)
    )
    sudo_password = forms.CharField(
        label=_("sudo password"),
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs=_SECRET),
        help_text=_("Leave empty if sudo needs no password (NOPASSWD)."),
    )
    new_key = forms.BooleanField(
        label=_("Create a new key"),
        required=False,
        help_text=_(
            "Replaces the stored private key. Paddock cannot sign in until you add the new public key on the host."
        ),
    )
    tags = TagsFormField(label=_("Tags"))
    teams = forms.ModelMultipleChoiceField(
        label=_("Teams"),
        queryset=Team.objects.order_by("name"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_(
            "Only these teams see the host and put sites on the host. Select none to let every team use the host."
        ),
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = Host
        fields = (
            "name",
            "address",
            "port",
            "bastion",
            "username",
            "private_key",
            "authority",
            "password",
            "use_sudo",
            "sudo_password",
            "layout",
            "site_roots",
            "tags",
        )
        labels = {
            "address": _("Address"),
            "bastion": _("Bastion"),
            "authority": _("SSH certificate authority"),
            "username": _("User name"),
            "use_sudo": _("Use sudo"),
            "layout": _("Site layout of the web servers"),
        }
        help_texts = {
            "name": _(
                "Lowercase letters, digits, and hyphens, for example `web-1`. The name does not have to be a DNS name."
            ),
            "address": _("Host name or IP address, for example `web1.example.net`."),
            "bastion": _(
                "The host that passes SSH connections on to this host (ProxyJump), if Paddock cannot reach this "
                "host directly."
            ),
            "authority": _(
                "With this authority, Paddock signs a new key for each connection. You need no private "
                "key for the host."
            ),
            "username": _(
                "Paddock's account on the host, for example `paddock`. The command that Paddock shows "
                "creates the account if it does not exist."
            ),
            "use_sudo": _(
                "Required unless the user can write the web servers' configuration and reload the web servers."
            ),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        leave_to_model(self)
        tags = self.fields["tags"]
        assert isinstance(tags, TagsFormField)
        tags.tell_known(tags_of_all_hosts())
        if self.instance.pk:
            self.initial["teams"] = list(self.instance.teams.all())
        self.stored = {name: getattr(self.instance, name) for name in self.SECRETS}
        if self.instance.connection == Connection.LOCAL:
            for name in ("address", "port", "bastion", "username", "use_sudo", "authority", "new_key", *self.SECRETS):
                del self.fields[name]
            return
        bastion = self.fields["bastion"]
        assert isinstance(bastion, forms.ModelChoiceField)
        bastion.queryset = hosts_over_ssh().exclude(pk=self.instance.pk)
        bastion.empty_label = _("None (Paddock connects directly)")
        authority = self.fields["authority"]
        assert isinstance(authority, forms.ModelChoiceField)
        authority.queryset = user_authorities()
        authority.empty_label = _("None (Paddock signs in with the key or the password)")
        for name, words in (("address", rules.NO_ADDRESS), ("username", rules.NO_USERNAME)):
            self.fields[name].required = True
            self.fields[name].error_messages["required"] = words
        for name, value in self.stored.items():
            self.initial[name] = ""
            if value:
                self.fields[name].help_text = _(
                    "A value is stored. Leave empty to keep the value. A new address, port, or user clears the value."
                )
        if self.instance.pk:
            self.initial["version"] = self.instance.row_version
        else:
            del self.fields["new_key"]  # a new host without secrets is given a key

    def _kept(self, name: str) -> str:
        return str(self.cleaned_data.get(name) or self.stored[name])

    def clean_private_key(self) -> str:
        value = self._kept("private_key").replace("\r\n", "\n")
        return f"{value.rstrip()}\n" if value.strip() else ""

    def clean_password(self) -> str:
        return self._kept("password")

    def clean_use_sudo(self) -> bool:
        """Turn sudo off for a new host with the user root: the form selects it by default, but root needs no sudo."""
        is_superfluous = self.instance.pk is None and self.cleaned_data.get("username") == "root"
        return bool(self.cleaned_data["use_sudo"]) and not is_superfluous

    def clean_sudo_password(self) -> str:
        """Return the entered or stored sudo password; "" if sudo is turned off."""
        return self._kept("sudo_password") if self.cleaned_data.get("use_sudo") else ""

    @property
    def expected_version(self) -> int | None:
        return self.cleaned_data.get("version")

    def values(self) -> dict[str, Any]:
        """Return the values of the form's fields for `host_create` and `host_update`, without unchanged secrets."""
        kept = {name for name, value in self.stored.items() if value and self.cleaned_data.get(name) == value}
        return {name: value for name, value in self.cleaned_data.items() if name not in kept | {"version"}}
