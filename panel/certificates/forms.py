"""Forms of ACME accounts, DNS accounts, and automatic HTTPS."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.certificates.choices import RevocationReason
from panel.certificates.dns.providers import PROVIDERS, Setting
from panel.certificates.models import AcmeAccount, AutomaticCertificate, DnsAccount
from panel.core.forms import InWords, leave_to_model
from panel.hosts.models import Engine
from panel.websites.forms.base import PartForm, offer_teams


class AccountForm(PartForm[AcmeAccount]):
    class Meta:
        model = AcmeAccount
        fields = ("team", "name", "issuer", "email", "directory_url", "ca_pem", "eab_key_id", "eab_key")
        labels = {
            "issuer": _("Certificate authority"),
            "email": _("Email address"),
            "directory_url": _("Directory URL"),
            "ca_pem": _("CA file"),
            "eab_key_id": _("External account key ID"),
            "eab_key": _("External account key"),
        }
        help_texts = {
            "email": _("The certificate authority may send mail to this address. Leave empty for none."),
            "directory_url": _(
                "For another ACME directory, for example `https://ca.example/directory`. Only "
                "administrators can enter this URL."
            ),
            "ca_pem": _("PEM certificates of the authority that signed the TLS certificate of the ACME directory."),
            "eab_key_id": _("ZeroSSL and Google Trust Services show the key ID and the key in your account."),
            "eab_key": _("Stored encrypted and not shown again."),
        }
        widgets = {
            "ca_pem": forms.Textarea(attrs={"rows": 4, "class": "lines", "spellcheck": "false"}),
            "eab_key": forms.PasswordInput(attrs={"autocomplete": "off"}),
        }

    def __init__(self, *args: Any, teams: QuerySet[Team], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_teams(self, teams)


class AutomaticForm(PartForm[AutomaticCertificate]):
    class Meta:
        model = AutomaticCertificate
        fields = (
            *("account", "dns", "tls_challenges", "key_type", "reuse_key"),
            *("profile", "https_port", "http3", "hsts_max_age_s"),
        )
        labels = {
            "account": _("Account"),
            "dns": _("DNS account"),
            "tls_challenges": _("Prove the names over TLS"),
            "key_type": _("Key type"),
            "reuse_key": _("Keep the key when renewing"),
            "profile": _("Profile"),
            "https_port": _("HTTPS port"),
            "http3": _("HTTP/3, if the web server supports it"),
            "hsts_max_age_s": _("HSTS, in seconds"),
        }
        help_texts = {
            "dns": _(
                "Paddock proves the domain names by DNS records, which wildcard names need. Leave empty to use HTTP."
            ),
            "tls_challenges": _("Only with gallop: the certificate authority connects to port 443 instead of port 80."),
            "reuse_key": _(
                "Only for clients that always expect the same key. If this is off, Paddock creates a new "
                "key for each renewal."
            ),
            "profile": _(
                "A profile of the certificate authority, for example `shortlived`. Leave empty for the default."
            ),
            "hsts_max_age_s": _(
                "Browsers refuse plain HTTP for this time after each visit, even if HTTPS is turned off. Start with "
                "86400 (a day); 31536000 is a year. Leave empty for none."
            ),
            "https_port": _("Port of the listeners that Paddock adds to server blocks without TLS."),
        }

    def __init__(
        self, *args: Any, accounts: QuerySet[AcmeAccount], dns_accounts: QuerySet[DnsAccount], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        leave_to_model(self)
        web_server = self.instance.site.web_server
        if web_server is None or web_server.engine != Engine.NATIVE:
            del self.fields["tls_challenges"]
        dns = self.fields["dns"]
        assert isinstance(dns, forms.ModelChoiceField)
        dns.queryset, dns.empty_label = dns_accounts, _("None")
        account = self.fields["account"]
        assert isinstance(account, forms.ModelChoiceField)
        account.queryset = accounts
        account.empty_label = _("Choose an account")
        only = accounts[:2]
        if len(only) == 1:
            self.initial["account"] = only[0].pk


class DnsAccountForm(InWords, forms.Form):
    """Form of a DNS account: name, team, and the settings of its kind.
    For an existing account, an empty secret keeps the stored one.
    """

    def __init__(
        self, *args: Any, kind: str, teams: QuerySet[Team], account: DnsAccount | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if account is None:
            self.fields["name"] = forms.CharField(label=_("Name"), max_length=63)
            self.fields["team"] = forms.ModelChoiceField(teams, label=_("Team"))
            offer_teams(self, teams)
        for setting in PROVIDERS[kind].settings:
            self.fields[setting.name] = _setting_field(setting, account)

    def settings_given(self) -> dict[str, str]:
        """Return the entered settings of the DNS server or provider, without the account's name and team."""
        return {name: value for name, value in self.cleaned_data.items() if name not in ("name", "team")}


def _setting_field(setting: Setting, account: DnsAccount | None) -> forms.Field:
    before = account.values.get(setting.name, "") if account else setting.default
    is_kept = setting.is_secret and account is not None
    help_text = str(_("Leave empty to keep the stored value.") if is_kept else setting.help)
    values: dict[str, Any] = {"label": setting.label, "required": setting.is_needed and not is_kept}
    if setting.choices:
        return forms.ChoiceField(choices=[(name, name) for name in setting.choices], initial=before, **values)
    widget = forms.PasswordInput(attrs={"autocomplete": "off"}) if setting.is_secret else forms.TextInput()
    return forms.CharField(
        max_length=1000, help_text=help_text, widget=widget, initial="" if setting.is_secret else before, **values
    )


class RevokeForm(InWords, forms.Form):
    reason = forms.ChoiceField(label=_("Reason"), choices=RevocationReason.choices)
    order_new = forms.BooleanField(
        label=_("Order a new certificate at once"),
        initial=True,
        required=False,
        help_text=_("The new certificate has a new key. Without a new certificate, visitors may see a warning."),
    )


class DnsTestForm(InWords, forms.Form):
    domain = forms.CharField(
        label=_("Domain name"),
        max_length=253,
        help_text=_("A domain name in a zone of this account, for example `www.example.com`."),
    )
