"""Server blocks and locations."""

from __future__ import annotations

from typing import Any

import bcrypt
from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from panel.core.forms import LinesField
from panel.websites import lines, members
from panel.websites.forms.base import PartForm, null_boolean
from panel.websites.models import Certificate, Listen, Location, ServerBlock
from panel.websites.validators import server_names_normalized

# Fails no check and opens nothing: stands for a password while one is still typing elsewhere in the form.
_UNUSED_HASH = "$2b$12$" + "." * 53


def _index(**kwargs: Any) -> LinesField:
    return LinesField(
        label=_("Index files"),
        rows=1,
        to_text=lines.words_to_text,
        from_text=lines.words_from_text,
        help_text=_("Tried in this order for a folder: index.html index.php"),
        **kwargs,
    )


def _try_files() -> LinesField:
    return LinesField(
        label=_("Try files"),
        rows=1,
        to_text=lines.words_to_text,
        from_text=lines.words_from_text,
        help_text=_("The first that exists is served; the last is what to do otherwise: $uri $uri/ /index.php?$args"),
    )


def _headers() -> LinesField:
    return LinesField(
        label=_("Response headers"),
        to_text=lines.headers_to_text,
        from_text=lines.headers_from_text,
        help_text=_("One a line: X-Frame-Options: DENY. Put [2xx] in front to leave error answers without it."),
    )


def _rewrites(help_text: Any) -> LinesField:
    return LinesField(
        label=_("Rewrites"), to_text=lines.rewrites_to_text, from_text=lines.rewrites_from_text, help_text=help_text
    )


class BlockForm(PartForm[ServerBlock]):
    listens = LinesField(
        label=_("Listens on"),
        rows=3,
        required=True,
        to_text=lines.listens_to_text,
        from_text=lines.listens_from_text,
        error_messages={"required": _("Write at least one line, such as 80 or 443 tls.")},
        help_text=_("One a line: 80, [::]:80, 127.0.0.1:8080. Words after it: tls http2 http3 default."),
    )
    names = LinesField(
        label=_("Server names"),
        rows=3,
        to_text=lines.names_to_text,
        from_text=lines.names_from_text,
        help_text=_("www.example.com, *.example.com, .example.com, www.* or ~regex. None for a default server."),
    )
    index = _index()
    try_files = _try_files()
    rewrites = _rewrites(
        _("In order, before a location is chosen: ^/old/(.*)$ /new/$1. Words after it: last break redirect permanent.")
    )
    headers = _headers()
    error_pages = LinesField(
        label=_("Error pages"),
        to_text=lines.error_pages_to_text,
        from_text=lines.error_pages_from_text,
        help_text=_("404 410 = /gone.html keeps the status; 404 =200 /empty.gif answers with another."),
    )
    gzip_types = LinesField(
        label=_("Types to compress"),
        rows=1,
        to_text=lines.words_to_text,
        from_text=lines.words_from_text,
        help_text=_("text/css application/json; HTML always is."),
    )

    class Meta:
        model = ServerBlock
        fields = members.BLOCK
        labels = {
            "root": _("Document root"),
            "autoindex": _("List folders that have no index file"),
            "access_log": _("Access log"),
            "access_log_format": _("Access log's lines"),
            "error_log": _("Error log"),
            "error_log_level": _("Log from level"),
            "gzip": _("Compress answers"),
            "brotli": _("Compress with Brotli"),
            "client_max_body_mb": _("Largest upload, MB"),
            "client_max_header_kb": _("Longest header, KB"),
            "certificate": _("Certificate"),
            "redirect_to_https": _("Lead plain HTTP to HTTPS"),
            "hsts_max_age_s": _("HSTS, seconds"),
        }
        help_texts = {
            "root": _("Whole path, below one of the host's folders for sites."),
            "access_log": _("Path ending in .log, off, or empty for the server's own."),
            "client_max_body_mb": _("Empty: as the server does by default. 0: no limit."),
            "client_max_header_kb": _("Of a request's first line and of each header. A port's default server decides."),
            "gzip": _(
                "By default nginx and gallop do what their main file says, Apache compresses text, OpenLiteSpeed all "
                "that its list names."
            ),
            "brotli": _("The same media types as gzip, for clients that take it."),
            "hsts_max_age_s": _("How long browsers insist on HTTPS: 31536000 is a year. Empty: not sent."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        block = self.instance
        certificate = self.fields["certificate"]
        assert isinstance(certificate, forms.ModelChoiceField)
        certificate.queryset = Certificate.objects.filter(team=block.site.team_id)
        certificate.empty_label = _("No certificate")
        if block.pk:
            fields = ("address", "port", "tls", "http2", "http3", "default_server")
            self.initial.setdefault("listens", list(block.listens.values(*fields)))
            self.initial.setdefault("names", [row.name for row in block.names.all()])

    def clean_listens(self) -> list[dict[str, Any]]:
        value: list[dict[str, Any]] = self.cleaned_data["listens"]
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
                faults.append(gettext("%s stands here twice.") % listen)
            seen.add((listen.address, listen.port))
        if faults:
            raise ValidationError(faults)
        return value

    def clean_names(self) -> list[str]:
        return server_names_normalized(self.cleaned_data["names"])


class LocationForm(PartForm[Location]):
    index = _index()
    try_files = _try_files()
    rewrites = _rewrites(_("In order, of a path that comes here: ^/blog/(.*)$ /$1 break. The last word as in nginx."))
    cache_times = LinesField(
        label=_("Keep answers for"),
        rows=2,
        to_text=lines.cache_times_to_text,
        from_text=lines.cache_times_from_text,
        help_text=_("One a line: 200 301 = 10m, 404 = 30s. Empty: nothing is kept. What an answer says comes first."),
    )
    cache_skip_cookies = LinesField(
        label=_("Not for visitors with the cookies"),
        rows=1,
        to_text=lines.words_to_text,
        from_text=lines.words_from_text,
        help_text=_("session wordpress_logged_in_*; nor for requests with a password."),
    )
    headers = _headers()
    autoindex = null_boolean(_("List folders"), _("As the server block"), required=False)
    request_headers = LinesField(
        label=_("Headers to the upstream"),
        to_text=lines.request_headers_to_text,
        from_text=lines.request_headers_from_text,
        help_text=_("One a line: X-Realm: shop. Host and X-Forwarded-* are always sent."),
    )
    access_rules = LinesField(
        label=_("Access rules"),
        to_text=lines.access_rules_to_text,
        from_text=lines.access_rules_from_text,
        help_text=_("The first that fits decides: allow 10.0.0.0/8, then deny all."),
    )
    basic_auth_users = LinesField(
        label=_("Users"),
        to_text=lines.users_to_text,
        from_text=lines.users_from_text,
        help_text=_("One a line: anna: password. Passwords are stored hashed; (kept) leaves one as it is."),
    )

    class Meta:
        model = Location
        fields = members.LOCATION
        labels = {
            "match": _("Path"),
            "pattern": _("Pattern"),
            "handler": _("Answered by"),
            "root": _("Root"),
            "alias": _("Alias"),
            "php_pool": _("PHP pool"),
            "split_path_info": _("Split PATH_INFO (script.php/rest)"),
            "upstream": _("Upstream"),
            "upstream_tls": _("Speak TLS with the upstream"),
            "proxy_uri": _("Replace prefix by"),
            "websocket": _("Pass WebSocket upgrades"),
            "connect_timeout_s": _("Connect within, s"),
            "read_timeout_s": _("Answer within, s"),
            "cache_skip_queries": _("Not for addresses with a query"),
            "cache_stale": _("Old answers where the application fails"),
            "cache_header": _("Say in X-Cache what came from the cache"),
            "cache_key": _("Told apart by"),
            "return_code": _("Status"),
            "return_value": _("Where to, or body"),
            "expires": _("Expires"),
            "basic_auth_realm": _("Realm"),
            "rate_limit_rps": _("Requests/s per client"),
            "rate_limit_burst": _("Burst"),
            "connection_limit": _("Connections per client"),
            "client_max_body_mb": _("Largest upload, MB"),
            "gzip": _("Compress answers"),
        }
        help_texts = {
            "root": _("The path is added to it. Empty: the server block's."),
            "alias": _("Takes the place of the matched prefix."),
            "proxy_uri": _("Empty: passed on as it came."),
            "cache_key": _("Empty: scheme, host, path and query. Else such as $host$uri."),
            "return_value": _("For 301, 302, 303, 307, 308: https://www.example.com$request_uri or /new"),
            "expires": _("30d, 12h, -1 (no caching), max or off"),
            "basic_auth_realm": _("Shown when browsers ask for a password. Empty: nobody is asked."),
        }

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
        self.fields["rate_limit_burst"].required = False  # empty: none
        self.old_users = dict(self.instance.basic_auth_users or {})

    def clean_basic_auth_users(self) -> dict[str, str]:
        users = {}
        for name, secret in self.cleaned_data["basic_auth_users"].items():
            if secret == lines.KEPT:
                if name not in self.old_users:
                    raise ValidationError(gettext("%s has no password yet: write one.") % name)
                users[name] = self.old_users[name]
            elif len(secret.encode()) > 72:
                raise ValidationError(gettext("The password of %s is longer than the 72 bytes bcrypt reads.") % name)
            elif self.is_inline:
                users[name] = _UNUSED_HASH
            else:
                users[name] = bcrypt.hashpw(secret.encode(), bcrypt.gensalt()).decode()
        return users

    def clean_rate_limit_burst(self) -> int:
        return self.cleaned_data["rate_limit_burst"] or 0
