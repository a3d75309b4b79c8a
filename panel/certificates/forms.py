"""Forms of accounts at certificate authorities, and of the switch of a site."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.certificates.models import AcmeAccount, AutomaticCertificate
from panel.core.forms import leave_to_model
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
            "email": _("The certificate authority may write to it. Leave empty for none."),
            "directory_url": _("Only for another ACME directory, by administrators: `https://ca.example/directory`."),
            "ca_pem": _("PEM certificates of the authority that signed the directory's own certificate."),
            "eab_key_id": _("ZeroSSL and Google Trust Services show it with the key in your account there."),
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
        fields = ("account", "key_type", "profile", "https_port", "http3")
        labels = {
            "account": _("Account"),
            "key_type": _("Key type"),
            "profile": _("Profile"),
            "https_port": _("HTTPS port"),
            "http3": _("HTTP/3, if the web server supports it"),
        }
        help_texts = {
            "profile": _("A profile of the authority, for example `shortlived`. Leave empty for its default."),
            "https_port": _("Port of the listeners that Paddock adds to server blocks without TLS."),
        }

    def __init__(self, *args: Any, accounts: QuerySet[AcmeAccount], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        leave_to_model(self)
        account = self.fields["account"]
        assert isinstance(account, forms.ModelChoiceField)
        account.queryset = accounts
        account.empty_label = _("Choose an account")
