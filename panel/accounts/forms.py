"""Forms of accounts. The models validate single values; the forms only collect them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Role, SavedView, Scope, Team, Theme, User
from panel.accounts.validators import validate_addresses, validate_line, validate_timezone, validate_username
from panel.core.forms import Form
from panel.core.models import MailServer
from panel.core.zones import time_zones

_NEW_PASSWORD = _("At least 12 characters. Use a few unrelated words, for example `copper-tent-violin-march`.")


def _password(label: Any, *, new: bool = False, required: bool = True) -> forms.CharField:
    """Password field that keeps leading and trailing spaces."""
    return forms.CharField(
        label=label,
        strip=False,
        required=required,
        max_length=1024,  # hashing time grows with length
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password" if new else "current-password"}),
        help_text=_NEW_PASSWORD if new else "",
    )


def _code(*, required: bool = True) -> forms.CharField:
    return forms.CharField(
        label=_("Code"),
        required=required,
        max_length=20,
        error_messages={"required": _("Enter the current code from your authenticator app, or a recovery code.")},
        help_text=_("The six digits from your authenticator app, or a recovery code."),
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "spellcheck": "false"}),
    )


class _TwicePassword(Form):
    """Form with a new password that is entered twice."""

    password = _password(_("Password"), new=True)
    again = _password(_("Repeat password"), new=True)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["again"].help_text = ""

    def clean(self) -> dict[str, object]:
        data = super().clean() or {}
        if "again" in data and data.get("password", "") != data["again"]:
            self.add_error("again", _("The two passwords differ. Enter both again."))
            self._judge(data.get("password", ""))
        return data

    def _judge(self, password: str) -> None:
        """Add the errors of the password validators to the form.

        The service that sets the password runs these validators too, but it is not called if the form has other errors.
        """
        try:
            validate_password(password)
        except ValidationError as error:
            self.add_error("password", error)


class SetupForm(_TwicePassword):
    username = forms.CharField(
        label=_("User name"),
        max_length=80,
        validators=[validate_username],
        help_text=_("Letters, digits, and . _ - @ +, for example `anna.berger`."),
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}),
    )
    email = forms.EmailField(
        label=_("Email"), required=False, help_text=_("Paddock sends notifications to this address.")
    )
    # The browser's time zone, set by paddock.js; without scripts the user chooses it later, under Account.
    timezone_name = forms.CharField(required=False, widget=forms.HiddenInput(attrs={"data-own-zone": ""}))
    field_order = ["username", "email", "password", "again"]

    def clean_timezone_name(self) -> str:
        name = str(self.cleaned_data["timezone_name"])
        return name if name in time_zones() else "UTC"


def _begin_at(form: Form, name: str) -> None:
    """Give a field of the form the keyboard focus when the page opens. Only for pages whose purpose is this form."""
    form.fields[name].widget.attrs["autofocus"] = True


class LoginForm(Form):
    username = forms.CharField(
        label=_("User name"),
        max_length=80,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}),
    )
    password = _password(_("Password"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _begin_at(self, "password" if self.is_bound else "username")  # a wrong password must be entered again


class CodeForm(Form):
    code = _code()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _begin_at(self, "code")


class SudoForm(Form):
    password = _password(_("Password"))
    code = _code(required=False)

    def __init__(self, *args: Any, needs_code: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if needs_code:
            self.fields["code"].required = True
        else:
            del self.fields["code"]
        _begin_at(self, "password")


class PasswordForm(_TwicePassword):
    current = _password(_("Current password"))
    password = _password(_("New password"), new=True)
    field_order = ["current", "password", "again"]


def timezone_choices() -> list[tuple[str, str]]:
    return [(name, name.replace("_", " ")) for name in sorted(time_zones())]


class ProfileForm(Form):
    email = forms.EmailField(label=_("Email"), required=False)
    timezone_name = forms.ChoiceField(
        label=_("Time zone"),
        choices=timezone_choices,
        validators=[validate_timezone],
        widget=forms.Select(attrs={"data-narrow": _("Filter this list")}),
    )
    theme = forms.ChoiceField(label=_("Theme"), choices=Theme.choices)
    mail_alerts = forms.BooleanField(
        label=_("Email alerts"),
        required=False,
        help_text=_(
            "Get a mail for unreachable hosts, stopped web servers, rolled-back deployments, drift, and "
            "expiring certificates, and another mail when an alert is resolved."
        ),
    )


class UserForm(Form):
    """Form with which administrators create or change an account.
    Without a password, a new user gets a link that sets one, and an existing user keeps the old password.
    """

    username = forms.CharField(label=_("User name"), max_length=80, validators=[validate_username])
    email = forms.EmailField(label=_("Email"), required=False)
    role = forms.ChoiceField(
        label=_("Role"),
        choices=Role.choices,
        initial=Role.VIEWER,
        help_text=_("Operators edit, deploy, and benchmark their teams' sites. Viewers only read."),
    )
    teams = forms.ModelMultipleChoiceField(
        label=_("Teams"), queryset=Team.objects.all(), required=False, widget=forms.CheckboxSelectMultiple
    )
    is_active = forms.BooleanField(label=_("Active"), required=False, initial=True)
    password = _password(_("Password"), new=True)

    def __init__(self, *args: Any, user: User | None = None, **kwargs: Any) -> None:
        if user is not None:
            kwargs["initial"] = {name: getattr(user, name) for name in ("username", "email", "role", "is_active")} | {
                "teams": list(user.teams.all())
            }
        super().__init__(*args, **kwargs)
        self.fields["password"].required = False
        if user is None:
            self.fields["password"].help_text = _(
                "Leave empty to invite the user with a link. The user sets the password with this link."
            )
        else:
            self.fields["password"].label = _("New password")
            self.fields["password"].help_text = _("Leave empty to keep the current password.")


class ForgottenForm(Form):
    name = forms.CharField(
        label=_("User name or mail address"),
        max_length=254,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}),
    )


class NewPasswordForm(_TwicePassword):
    """Form of a one-time link's page: the new password, entered twice."""


class MailServerForm(Form):
    host = forms.CharField(label=_("Mail server"), max_length=253, help_text=_("For example: smtp.example.com"))
    port = forms.IntegerField(label=_("Port"), min_value=1, max_value=65535, initial=587)
    security = forms.ChoiceField(label=_("Encryption"), choices=MailServer.Security.choices)
    username = forms.CharField(label=_("User name"), required=False, max_length=200)
    password = forms.CharField(
        label=_("Password"),
        required=False,
        strip=False,
        max_length=1024,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=_("Leave empty to keep the stored password, unless you change the server, port, or user name."),
    )
    sender = forms.CharField(
        label=_("Sender"), max_length=200, help_text=_("For example: Paddock <paddock@example.com>")
    )


class TeamForm(Form):
    name = forms.CharField(label=_("Name"), max_length=80, validators=[validate_line])
    slug = forms.SlugField(
        label=_("Short name"),
        max_length=80,
        help_text=_("Lowercase letters, digits, and hyphens, for example `web-team`."),
    )
    members = forms.ModelMultipleChoiceField(
        label=_("Members"),
        queryset=User.objects.order_by("username"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Administrators see every site, even without a team."),
    )


_LIFETIMES = [("7", _("7 days")), ("30", _("30 days")), ("90", _("90 days")), ("365", _("1 year")), ("", _("Never"))]


class SavedViewForm(Form):
    page = forms.ChoiceField(choices=SavedView.Page.choices)
    name = forms.CharField(
        label=_("View name"),
        max_length=40,
        error_messages={"required": _("Enter a name for the view, for example Live on nginx.")},
    )
    query = forms.CharField(required=False, max_length=4000)


class TokenForm(Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=80,
        validators=[validate_line],
        help_text=_("The program that uses the token, for example `backup script`."),
    )
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=Scope.choices,
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": _("Select at least one scope for the token.")},
    )
    lifetime = forms.ChoiceField(label=_("Expires after"), choices=_LIFETIMES, initial="90", required=False)
    limit_addresses = forms.BooleanField(label=_("Restrict to these addresses"), required=False)
    addresses = forms.CharField(
        label=_("Addresses"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=_(
            "Addresses and networks, one per line, for example `192.0.2.7` or `10.0.0.0/8`. "
            "If the restriction is on and this field "
            "is empty, the token cannot be used."
        ),
    )

    def clean_addresses(self) -> list[str]:
        addresses = str(self.cleaned_data["addresses"]).replace(",", " ").split()
        validate_addresses(addresses)
        return addresses

    def clean(self) -> dict[str, object]:
        data = super().clean() or {}
        if data.get("addresses") and not data.get("limit_addresses"):
            self.add_error(
                "limit_addresses", _("Turn on the restriction to use these addresses, or leave this field empty.")
            )
        return data

    def expires_at(self) -> dt.datetime | None:
        days = self.cleaned_data["lifetime"]
        return timezone.now() + dt.timedelta(days=int(days)) if days else None

    def allowed_addresses(self) -> list[str] | None:
        return self.cleaned_data["addresses"] if self.cleaned_data["limit_addresses"] else None
