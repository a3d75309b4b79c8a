"""Forms of upstreams, PHP pools, stream servers, raw directives and certificates."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from panel.core.forms import Form, LinesField, TagsFormField
from panel.websites import field_names, lines, selectors
from panel.websites.definitions import ServerData
from panel.websites.forms.base import PartForm, RawDirectivesForm, offer_teams
from panel.websites.models import Certificate, PhpPool, RawSnippet, StreamServer, Upstream, UpstreamServer


class UpstreamForm(PartForm[Upstream]):
    servers = LinesField(
        label=_("Servers"),
        to_text=lines.servers_to_text,
        from_text=lines.servers_from_text,
        help_text=_(
            "One per line: `127.0.0.1:3000`, `[::1]:3000`, or `unix:/run/app.sock`. Options: `weight=2 "
            "max_fails=3 fail_timeout=30 backup down`. If you enter tags of hosts, the hosts with these tags "
            "are the servers, and each line only sets options of one server."
        ),
    )
    host_tags = TagsFormField(label=_("Tags of hosts"))

    class Meta:
        model = Upstream
        fields = ("name", "balancing", "keepalive", "host_tags", "host_port")
        labels = {
            "balancing": _("Load balancing"),
            "keepalive": _("Idle connections to keep open"),
            "host_port": _("Port on these hosts"),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial.setdefault("servers", list(self.instance.servers.values(*field_names.SERVER)))
        self.fields["host_tags"].help_text = _(
            "For example `role=app`. All hosts with these tags are then servers, at the addresses of the hosts. When a "
            "host gains or loses a tag, the draft changes."
        )

    def clean(self) -> dict[str, object]:
        data: dict[str, object] = super().clean() or self.cleaned_data
        if not self.errors and not data["servers"] and not data["host_tags"]:
            self.add_error("servers", _("Enter at least one server, for example 127.0.0.1:3000, or tags of hosts."))
        return data

    def clean_servers(self) -> list[ServerData]:
        value: list[ServerData] = self.cleaned_data["servers"]
        for item in value:
            try:
                UpstreamServer(**item).full_clean(exclude={"upstream"}, validate_unique=False)
            except ValidationError as error:
                raise ValidationError(error.messages) from error
        return value


class PhpPoolForm(PartForm[PhpPool]):
    settings = LinesField(
        label=_("PHP settings"),
        to_text=lines.settings_to_text,
        from_text=lines.settings_from_text,
        help_text=_("One per line, for example `memory_limit = 256M`."),
    )

    class Meta:
        model = PhpPool
        fields = ("name", "address", "settings")
        error_messages = {
            "address": {"required": _("Enter the address of the PHP pool, for example unix:/run/php/php8.2-fpm.sock.")}
        }
        labels = {"address": _("Listens on")}
        help_texts = {
            "address": _("Address of a running pool, for example `unix:/run/php/php8.2-fpm.sock` or `127.0.0.1:9000`.")
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.suggestions = selectors.local_services_of(self.instance.site)
        if self.suggestions:
            self.fields["address"].widget.attrs["list"] = "local-services"


class StreamServerForm(PartForm[StreamServer]):
    allowed = LinesField(
        label=_("Allowed addresses"),
        to_text=lines.names_to_text,
        from_text=lines.words_from_text,
        help_text=_("Addresses and networks, for example `192.0.2.0/24`. Leave empty to allow every client."),
    )
    routes = LinesField(
        label=_("Upstreams by TLS server name"),
        to_text=lines.routes_to_text,
        from_text=lines.routes_from_text,
        help_text=_(
            "One name and one upstream per line, for example `mail.example.com imap` or `*.example.com web`. The web "
            "server reads the name that a client requests, and passes its TLS connection on unchanged. The upstream "
            "above gets all other connections."
        ),
    )

    class Meta:
        model = StreamServer
        fields = (
            *("name", "protocol", "address", "port", "certificate", "upstream", "routes", "upstream_tls"),
            *("upstream_tls_name", "upstream_tls_ca", "connect_timeout_s", "session_timeout_s"),
            *("allowed", "proxy_protocol"),
        )
        labels = {
            "address": _("Listen address"),
            "port": _("Listen port"),
            "upstream": _("Upstream"),
            "connect_timeout_s": _("Connect timeout, seconds"),
            "session_timeout_s": _("Session timeout, seconds"),
            "proxy_protocol": _("Send the PROXY protocol to the upstream"),
            "certificate": _("Certificate"),
            "upstream_tls": _("Connect to the upstream with TLS"),
            "upstream_tls_name": _("Name of the upstream in TLS"),
            "upstream_tls_ca": _("File with the upstream's certificate authority"),
        }
        help_texts = {
            "address": _("Leave empty for all IPv4 addresses. `::` means all IPv6 addresses."),
            "connect_timeout_s": _("Only for TCP. Leave empty for the web server's default, 60 seconds."),
            "session_timeout_s": _(
                "The web server ends a session without data after this time. Leave empty for its default, 10 minutes."
            ),
            "proxy_protocol": _(
                "The upstream must expect the PROXY protocol. The upstream then sees the client's address."
            ),
            "certificate": _(
                "Only for TCP. With a certificate, clients connect with TLS, and the web server decrypts their "
                "connections. Without one, the web server passes connections on unchanged."
            ),
            "upstream_tls": _("Only for TCP. The web server encrypts its connections to the upstream."),
            "upstream_tls_name": _("The name that the upstream's certificate must have, for example `db.example.com`."),
            "upstream_tls_ca": _(
                "A PEM file on the host, for example `/etc/ssl/certs/ca-certificates.crt`. The web server then checks "
                "the upstream's certificate. Leave empty to accept every certificate."
            ),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["upstream"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset, field.empty_label = self.instance.site.upstreams.all(), _("Choose an upstream")
        field.error_messages["required"] = _("Choose an upstream. If the site has none, add an upstream first.")
        certificate = self.fields["certificate"]
        assert isinstance(certificate, forms.ModelChoiceField)
        certificate.queryset = selectors.certificates_of_team(self.instance.site.team_id)
        certificate.empty_label = _("No certificate, no TLS")
        if self.instance.pk:
            rows = self.instance.routes.values_list("name", "upstream__name")
            self.initial.setdefault("routes", [{"name": name, "upstream": upstream} for name, upstream in rows])


class SnippetForm(RawDirectivesForm[RawSnippet]):
    class Meta:
        model = RawSnippet
        fields = ("engine", "text")
        error_messages = {
            "engine": {"required": _("Choose the web server that uses these directives.")},
            "text": {"required": _("Enter at least one directive.")},
        }
        labels = {"engine": _("Web server"), "text": _("Directives")}
        help_texts = {
            "text": _(
                "Written in the web server's own syntax. The host tests the directives before the web server "
                "loads them. A line `@cors` means the directives of the directive set cors."
            )
        }
        widgets = {"text": forms.Textarea(attrs={"rows": 8, "class": "lines", "spellcheck": "false"})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["engine"].disabled = bool(self.instance.pk)


_PEM = {
    "rows": 8,
    "class": "lines",
    "spellcheck": "false",
    "autocomplete": "off",
    "autocapitalize": "none",
    "data-secret": "",
}


def _certificate() -> forms.CharField:
    return forms.CharField(
        label=_("Certificate and chain"),
        widget=forms.Textarea(attrs=_PEM),
        error_messages={"required": _("Paste the certificate, starting with -----BEGIN CERTIFICATE-----.")},
        help_text=_("PEM format: the site's own certificate first, then its chain."),
    )


def _private_key() -> forms.CharField:
    return forms.CharField(
        label=_("Private key"),
        widget=forms.Textarea(attrs=_PEM),
        error_messages={"required": _("Paste the certificate's private key, starting with -----BEGIN.")},
        help_text=_("PEM format without passphrase. Stored encrypted and not shown again."),
    )


class CertificateUploadForm(PartForm[Certificate]):
    certificate_pem = _certificate()
    private_key_pem = _private_key()

    class Meta:
        model = Certificate
        fields = ("name", "team")

    def __init__(self, *args: Any, teams: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_teams(self, teams)


class CertificateReplaceForm(Form):
    """Form to replace a certificate by a new certificate and key under the same name."""

    certificate_pem = _certificate()
    private_key_pem = _private_key()


class CertificateExportForm(Form):
    """Form to download a certificate with its private key, encrypted with a password."""

    password = forms.CharField(
        label=_("Password of the file"),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        strip=False,
        help_text=_(
            "At least 12 characters. You need the password to open the file. Paddock does not store the password."
        ),
    )


class SelfSignForm(PartForm[Certificate]):
    names = LinesField(
        label=_("Names"),
        required=True,
        to_text=lines.names_to_text,
        from_text=lines.names_from_text,
        error_messages={"required": _("Enter at least one name, for example www.example.com.")},
        help_text=_("Domain names, wildcards, or IP addresses, one per line, for example `*.example.com`."),
    )
    days = forms.IntegerField(label=_("Validity in days"), initial=397, min_value=1, max_value=3650)

    class Meta:
        model = Certificate
        fields = ("name", "team")

    def __init__(self, *args: Any, teams: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_teams(self, teams)
