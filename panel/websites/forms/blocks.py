"""Forms of server blocks and locations."""

from __future__ import annotations

from typing import Any

import bcrypt
from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from panel.core.forms import LinesField
from panel.websites import definitions, field_names, lines
from panel.websites.definitions import ListenData
from panel.websites.forms.base import PartForm, null_boolean
from panel.websites.forms.cards import Card
from panel.websites.models import Listen, Location, ServerBlock, UpstreamProtocol
from panel.websites.selectors import certificates_of_team
from panel.websites.validators import server_names_normalized

# A hash that is valid but matches no password, used while the user edits other fields.
_UNUSED_HASH = "$2b$12$" + "." * 53


def _index(**kwargs: Any) -> LinesField:
    return LinesField(
        label=_("Index files"),
        rows=1,
        to_text=lines.words_to_text,
        from_text=lines.words_from_text,
        help_text=_("Tried in this order for a folder, for example `index.html index.php`."),
        **kwargs,
    )


def _try_files() -> LinesField:
    return LinesField(
        label=_("Try files"),
        rows=1,
        to_text=lines.words_to_text,
        from_text=lines.words_from_text,
        help_text=_(
            "The web server uses the first file that exists; the last entry is the fallback, for example "
            "`$uri $uri/ /index.php?$args`."
        ),
    )


def _headers() -> LinesField:
    return LinesField(
        label=_("Response headers"),
        to_text=lines.headers_to_text,
        from_text=lines.headers_from_text,
        help_text=_(
            "One per line, for example `X-Frame-Options: DENY`. Start a line with `[2xx]` to leave out error "
            "responses. `@security` means the headers of the header set security."
        ),
    )


def _rewrites(help_text: Any) -> LinesField:
    return LinesField(
        label=_("Rewrites"), to_text=lines.rewrites_to_text, from_text=lines.rewrites_from_text, help_text=help_text
    )


class BlockForm(PartForm[ServerBlock]):
    cards = (
        Card(_("Addresses"), definitions.BlockAddresses),
        Card(_("Files"), definitions.BlockFiles, wide=("try_files", "rewrites")),
        Card(_("TLS"), definitions.BlockTls),
        Card(_("Client certificates"), definitions.BlockClientCertificates, wide=("client_ca", "client_crl")),
        Card(_("Responses"), definitions.BlockResponses, wide=("headers", "error_pages")),
        Card(_("Logs"), definitions.BlockLogs),
    )
    listens = LinesField(
        label=_("Listens on"),
        rows=3,
        required=True,
        to_text=lines.listens_to_text,
        from_text=lines.listens_from_text,
        error_messages={"required": _("Enter at least one address, for example 80 or 443 tls.")},
        help_text=_(
            "One per line: `80`, `[::]:80`, `127.0.0.1:8080`. Options follow the address: `tls http2 http3 default`."
        ),
    )
    names = LinesField(
        label=_("Server names"),
        rows=3,
        to_text=lines.names_to_text,
        from_text=lines.names_from_text,
        help_text=_(
            "For example `www.example.com`, `*.example.com`, `.example.com`, `www.*`, or `~regex`. Leave "
            "empty for a default server."
        ),
    )
    index = _index()
    try_files = _try_files()
    rewrites = _rewrites(
        _(
            "Applied in order before the location is chosen, for example `^/old/(.*)$ /new/$1`. Flags: "
            "`last`, `break`, `redirect`, `permanent`."
        )
    )
    headers = _headers()
    error_pages = LinesField(
        label=_("Error pages"),
        to_text=lines.error_pages_to_text,
        from_text=lines.error_pages_from_text,
        help_text=_("`404 410 = /gone.html` keeps the status; `404 =200 /empty.gif` changes it."),
    )
    gzip_types = LinesField(
        label=_("Media types to compress"),
        rows=1,
        to_text=lines.words_to_text,
        from_text=lines.words_from_text,
        help_text=_("For example `text/css application/json`. HTML is always compressed."),
    )

    class Meta:
        model = ServerBlock
        fields = field_names.BLOCK
        widgets = {
            name: forms.Textarea({"rows": 3, "class": "lines", "spellcheck": "false"})
            for name in ("client_ca", "client_crl")
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        block = self.instance
        certificate = self.fields["certificate"]
        assert isinstance(certificate, forms.ModelChoiceField)
        certificate.queryset = certificates_of_team(block.site.team_id)
        certificate.empty_label = _("No certificate")
        if block.pk:
            fields = ("address", "port", "tls", "http2", "http3", "default_server")
            self.initial.setdefault("listens", list(block.listens.values(*fields)))
            self.initial.setdefault("names", [row.name for row in block.names.all()])

    def clean_listens(self) -> list[ListenData]:
        value: list[ListenData] = self.cleaned_data["listens"]
        seen: set[tuple[str, int]] = set()
        faults: list[str] = []
        for item in value:
            listen = Listen(**item)
            try:
                listen.full_clean(exclude={"block"}, validate_unique=False, validate_constraints=False)
            except ValidationError as error:
                faults += [text if str(listen.port) in text else f"{listen}: {text}" for text in error.messages]
                continue
            if (listen.address, listen.port) in seen:
                faults.append(gettext("%s appears twice.") % listen)
            seen.add((listen.address, listen.port))
        if faults:
            raise ValidationError(faults)
        return value

    def clean_names(self) -> list[str]:
        return server_names_normalized(self.cleaned_data["names"])


class LocationForm(PartForm[Location]):
    cards = (
        Card(_("Path"), definitions.LocationPath, wide=("rewrites",)),
        Card(_("Files"), definitions.LocationFiles, handlers="static php", wide=("try_files",)),
        Card(_("PHP"), definitions.LocationPhp, handlers="php"),
        Card(_("Proxy"), definitions.LocationProxy, handlers="proxy", wide=("request_headers",)),
        Card(_("Response caching"), definitions.LocationCaching, handlers="php proxy"),
        Card(_("Redirect or fixed response"), definitions.LocationReturn, handlers="return"),
        Card(_("Responses"), definitions.LocationResponses, wide=("headers",)),
        Card(_("Access control"), definitions.LocationAccess),
        Card(_("Rate limits"), definitions.LocationLimits),
    )
    index = _index()
    try_files = _try_files()
    rewrites = _rewrites(
        _("Applied in order to matching paths, for example `^/blog/(.*)$ /$1 break`. Flags work as in nginx.")
    )
    cache_times = LinesField(
        label=_("Response caching"),
        rows=2,
        to_text=lines.cache_times_to_text,
        from_text=lines.cache_times_from_text,
        help_text=_(
            "One per line, for example `200 301 = 10m` or `404 = 30s`. Leave empty to turn caching off. "
            "Cache headers of a response take precedence."
        ),
    )
    cache_skip_cookies = LinesField(
        label=_("Bypass cache for cookies"),
        rows=1,
        to_text=lines.words_to_text,
        from_text=lines.words_from_text,
        help_text=_(
            "For example `session wordpress_logged_in_*`. Requests with an Authorization header always "
            "bypass the cache."
        ),
    )
    headers = _headers()
    autoindex = null_boolean(_("Directory listings"), _("Inherit from the server block"), required=False)
    request_headers = LinesField(
        label=_("Request headers to the upstream"),
        to_text=lines.request_headers_to_text,
        from_text=lines.request_headers_from_text,
        help_text=_(
            "One per line, for example `X-Realm: shop`. HTTP and gRPC upstreams always receive Host and X-Forwarded-*."
        ),
    )
    access_rules = LinesField(
        label=_("Access rules"),
        to_text=lines.access_rules_to_text,
        from_text=lines.access_rules_from_text,
        help_text=_(
            "The first matching rule applies, for example `allow 10.0.0.0/8`, then `deny all`. `@office` means the "
            "addresses of the access list office."
        ),
    )
    basic_auth_users = LinesField(
        label=_("Users"),
        to_text=lines.users_to_text,
        from_text=lines.users_from_text,
        help_text=_(
            "One per line, for example `anna: password`. Passwords are stored hashed; `(kept)` keeps the current "
            "password."
        ),
    )

    class Meta:
        model = Location
        fields = field_names.LOCATION

    def __init__(self, *args: Any, is_inline: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_inline = is_inline
        site = self.instance.block.site
        for name, rows in (("php_pool", site.php_pools.all()), ("upstream", site.upstreams.all())):
            choice = self.fields[name]
            assert isinstance(choice, forms.ModelChoiceField)
            choice.queryset = rows
            choice.empty_label = _("Choose one")
        self.fields["pattern"].widget.attrs |= {"class": "mono", "spellcheck": "false", "autocapitalize": "none"}
        self.fields["rate_limit_burst"].required = False  # empty: no burst
        self.fields["upstream_protocol"].required = False  # empty: HTTP
        self.old_users = dict(self.instance.basic_auth_users or {})

    def clean_basic_auth_users(self) -> dict[str, str]:
        users = {}
        for name, secret in self.cleaned_data["basic_auth_users"].items():
            if secret == lines.KEPT:
                if name not in self.old_users:
                    raise ValidationError(gettext("%s has no password yet. Enter a password.") % name)
                users[name] = self.old_users[name]
            elif len(secret.encode()) > 72:
                raise ValidationError(
                    gettext("The password of %s is longer than 72 bytes, the limit of bcrypt.") % name
                )
            elif self.is_inline:
                users[name] = _UNUSED_HASH
            else:
                users[name] = bcrypt.hashpw(secret.encode(), bcrypt.gensalt()).decode()
        return users

    def clean_upstream_protocol(self) -> str:
        return self.cleaned_data["upstream_protocol"] or UpstreamProtocol.HTTP

    def clean_rate_limit_burst(self) -> int:
        return self.cleaned_data["rate_limit_burst"] or 0
