"""What must agree within one object: called by the models' `clean()`, after every field passed by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from panel.rendering import rewriting, snippets, variables
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import Rewrite
from panel.websites import validators

if TYPE_CHECKING:
    from panel.websites.models import Listen, Location, RawSnippet, ServerBlock


class _Faults:
    """Collects messages by field, so that a person sees all of them at once."""

    def __init__(self) -> None:
        self.messages: dict[str, list[str]] = {}

    def add(self, field: str, message: str) -> None:
        self.messages.setdefault(field, []).append(message)

    def check(self, field: str, check: object, value: str) -> None:
        assert callable(check)
        try:
            check(value)
        except ValidationError as error:
            self.messages.setdefault(field, []).extend(error.messages)

    def variables(self, field: str, texts: Iterable[str], captures: frozenset[str] = frozenset()) -> None:
        """Names the first variable that no server here knows."""
        for text in texts:
            try:
                variables.parse(text, field, captures=captures)
            except NotExpressible as error:
                self.add(field, f"“{text}”: {error.message}")

    def raise_any(self) -> None:
        if self.messages:
            raise ValidationError(self.messages)


def check_listen(listen: Listen) -> None:
    faults = _Faults()
    for name, label in (("http2", "HTTP/2"), ("http3", "HTTP/3")):
        if getattr(listen, name) and not listen.tls:
            faults.add(name, _("%s needs TLS: tick TLS and choose a certificate, or untick it.") % label)
    faults.raise_any()


def check_block(block: ServerBlock) -> None:
    faults = _Faults()
    faults.variables("try_files", block.try_files)
    faults.variables("headers", [item["value"] for item in block.headers])
    _check_rewrites(block.rewrites, faults)
    if block.access_log_format and block.access_log in ("", "off"):
        faults.add(
            "access_log_format", _("Only a log of its own has a format of its own: write the access log's path.")
        )
    faults.raise_any()


def check_location(location: Location) -> None:
    faults = _Faults()
    _check_pattern(location, faults)
    _check_handler(location, faults)
    _check_owners(location, faults)
    _check_variables(location, faults)
    if location.root and location.alias:
        faults.add("alias", _("Set either a root (the path is added to it) or an alias (it replaces the path)."))
    if location.alias and location.match in ("~", "~*"):
        faults.add("alias", _("An alias replaces a fixed prefix; with a regular expression use a root."))
    if location.basic_auth_users and not location.basic_auth_realm:
        faults.add("basic_auth_realm", _("Write what browsers show when they ask for the password."))
    if location.basic_auth_realm and not location.basic_auth_users:
        faults.add("basic_auth_users", _("Without a user nobody could come in: add one, or empty the realm."))
    if location.rate_limit_burst and not location.rate_limit_rps:
        faults.add("rate_limit_rps", _("A burst needs a rate: write how many requests a second are allowed."))
    faults.raise_any()


def _check_rewrites(rewrites: list[dict[str, str]], faults: _Faults) -> None:
    for item in rewrites:
        try:
            rewriting.check(Rewrite(item["pattern"], item["replacement"]), "")
        except NotExpressible as error:
            faults.add("rewrites", f"“{item['replacement']}”: {error.message}")


def _check_cache(location: Location, faults: _Faults, captures: frozenset[str]) -> None:
    faults.variables("cache_key", [location.cache_key], captures)
    for name in ("cache_skip_cookies", "cache_skip_queries", "cache_header", "cache_key"):
        if getattr(location, name) and not location.cache_times:
            faults.add("cache_times", _("Nothing is kept yet: write for how long, such as 200 301 = 10m."))
            return


def _check_pattern(location: Location, faults: _Faults) -> None:
    if location.match in ("~", "~*"):
        faults.check("pattern", validators.validate_regex, location.pattern)
        return
    faults.check("pattern", validators.validate_uri_path, location.pattern)
    if "?" in location.pattern:
        faults.add("pattern", _("A location is chosen by the path alone: leave out ? and what follows it."))


def _check_handler(location: Location, faults: _Faults) -> None:
    if location.handler == "proxy" and location.upstream is None:
        faults.add("upstream", _("Choose the upstream that answers; add one to this site first if there is none."))
    if location.handler == "php" and location.php_pool is None:
        faults.add("php_pool", _("Choose the PHP pool that runs the scripts; add one to this site first."))
    if location.handler == "return":
        _check_return(location, faults)
    if location.proxy_uri and location.match in ("~", "~*"):
        faults.add("proxy_uri", _("With a regular expression there is no prefix to replace: leave this empty."))


def _check_return(location: Location, faults: _Faults) -> None:
    code, value = location.return_code, location.return_value
    if code is None:
        faults.add("return_code", _("Write the status to answer with, such as 301 or 404."))
    elif code in validators.REDIRECTS and not value.startswith(("http://", "https://", "/", "$scheme://")):
        faults.add("return_value", _("Write where %s leads: https://www.example.com$request_uri or /new.") % code)
    elif 300 <= code < 400 and code not in validators.REDIRECTS:
        faults.add("return_code", _("%s is no redirect: use 301, 302, 303, 307 or 308.") % code)


def _check_variables(location: Location, faults: _Faults) -> None:
    is_regex = location.match in ("~", "~*")
    captures = variables.captures_of(location.pattern) if is_regex else frozenset()
    faults.variables("try_files", location.try_files, captures)
    faults.variables("headers", [item["value"] for item in location.headers], captures)
    faults.variables("request_headers", [item["value"] for item in location.request_headers], captures)
    faults.variables("return_value", [location.return_value], captures)
    _check_rewrites(location.rewrites, faults)
    _check_cache(location, faults, captures)


def _check_owners(location: Location, faults: _Faults) -> None:
    """A site's upstreams and pools are its own: naming another team's would read its backend."""
    site_id = location.block.site_id
    if location.upstream is not None and location.upstream.site_id != site_id:
        faults.add("upstream", _("This upstream belongs to another site: choose one of this site's."))
    if location.php_pool is not None and location.php_pool.site_id != site_id:
        faults.add("php_pool", _("This PHP pool belongs to another site: choose one of this site's."))


def check_snippet(snippet: RawSnippet) -> None:
    faults = _Faults()
    if snippet.block is not None and snippet.location is not None:
        faults.add("location", _("A snippet stands in a server block or in a location, not in both."))
    if snippet.block is None and snippet.location is None:
        faults.add("block", _("Choose the server block or location that the directives stand in."))
    if snippet.block is not None and snippet.block.site_id != snippet.site_id:
        faults.add("block", _("This server block belongs to another site."))
    if snippet.location is not None and snippet.location.block.site_id != snippet.site_id:
        faults.add("location", _("This location belongs to another site."))
    _check_directives(snippet, faults)
    faults.raise_any()


def _check_directives(snippet: RawSnippet, faults: _Faults) -> None:
    """By the grammar and policy of its server. Written for another server than the site's, its paths are judged when
    the site is planned there."""
    from panel.websites import freeze  # freeze imports the models, which call this module

    install = snippet.site.install
    if install is None or install.engine != snippet.engine:
        return
    for problem in snippets.check(snippet.text, freeze.install_spec(install)):
        faults.add("text", str(problem))
