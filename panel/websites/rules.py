"""Validation rules within one object, which the models' `clean()` calls after the validation of single fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from agents.host import addresses
from panel.core.errors import ApplicationError
from panel.rendering import claims, confinement, handlers, rewriting, snippets, spec, targets, variables
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import Rewrite
from panel.websites import client_certificates, shared, validators, web_server_specs

if TYPE_CHECKING:
    from panel.accounts.models import Team
    from panel.websites.models import Allowance, HeaderSet, Listen, Location, RawSnippet, ServerBlock, Upstream

T = TypeVar("T")


class _Faults:
    """Collected error messages by field, so that a user sees all of them at once."""

    def __init__(self) -> None:
        self.messages: dict[str, list[str]] = {}

    def add(self, field: str, message: str) -> None:
        self.messages.setdefault(field, []).append(message)

    def check(self, field: str, check: Callable[[str], object], value: str) -> None:
        self.tried(field, lambda: check(value))

    def tried(self, field: str, act: Callable[[], T]) -> T | None:
        """Return the result of `act`. If `act` raises ValidationError, add its messages to the field and
        return None.
        """
        try:
            return act()
        except ValidationError as error:
            self.messages.setdefault(field, []).extend(error.messages)
            return None

    def variables(self, field: str, texts: Iterable[str], captures: frozenset[str] = frozenset()) -> None:
        """Add an error for each text with a variable that Paddock does not support."""
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
            faults.add(
                name,
                _("%(option)s needs TLS. Turn on TLS and choose a certificate, or turn off %(option)s.")
                % {"option": label},
            )
    faults.raise_any()


def check_block(block: ServerBlock) -> None:
    faults = _Faults()
    faults.variables("try_files", block.try_files)
    faults.variables("headers", [item["value"] for item in block.headers])
    _check_header_sets(block.headers, block.site.team, faults)
    _check_rewrites(block.rewrites, faults)
    _check_clients(block, faults)
    if block.access_log_format and block.access_log in ("", "off"):
        faults.add(
            "access_log_format",
            _("The log format applies only to the site's own access log. Enter the path of this log."),
        )
    faults.raise_any()


def _check_clients(block: ServerBlock, faults: _Faults) -> None:
    """Check client certificate authorities and revocation lists, even if client certificates are not requested now."""
    if block.client_verify and not block.client_ca.strip():
        faults.add("client_ca", _("Paste the certificate of the authority that signs the clients' certificates."))
    if block.client_crl.strip() and not block.client_ca.strip():
        faults.add("client_crl", _("Add the certificate of the authority that issued the revocation list."))
    ca, crl = block.client_ca, block.client_crl
    authorities = faults.tried("client_ca", lambda: client_certificates.authorities_read(ca)) if ca.strip() else None
    lists = faults.tried("client_crl", lambda: client_certificates.revocations_read(crl)) if crl.strip() else None
    if authorities and lists:
        faults.tried("client_crl", lambda: client_certificates.revocations_check(authorities, lists))


def check_location(location: Location) -> None:
    faults = _Faults()
    _check_pattern(location, faults)
    _check_handler(location, faults)
    _check_owners(location, faults)
    _check_variables(location, faults)
    if location.root and location.alias:
        faults.add("alias", _("Set either a root (the path is appended) or an alias (the prefix is replaced)."))
    if location.alias and location.match in ("~", "~*"):
        faults.add("alias", _("An alias replaces a fixed prefix. With a regular expression, use a root."))
    _check_confined(location, faults)
    _check_access_lists(location, faults)
    _check_header_sets(location.headers, location.block.site.team, faults)
    if location.basic_auth_users and not location.basic_auth_realm:
        faults.add("basic_auth_realm", _("Enter a realm; browsers show it in the password dialog."))
    if location.basic_auth_realm and not location.basic_auth_users:
        faults.add("basic_auth_users", _("Add at least one user, or clear the realm."))
    if location.rate_limit_burst and not location.rate_limit_rps:
        faults.add("rate_limit_rps", _("A burst needs a rate. Enter the allowed requests per second."))
    faults.raise_any()


def _check_access_lists(location: Location, faults: _Faults) -> None:
    """Check that the site's team has the access lists that the location's access rules use by name."""
    wanted = shared.lists_named(location.access_rules)
    if not wanted:
        return
    team = location.block.site.team
    for name in sorted(wanted - set(team.accesslist_set.values_list("name", flat=True))):
        words = _("The team %(team)s has no access list “%(name)s”. Add the list under Sites, Shared settings.")
        faults.add("access_rules", words % {"team": team.name, "name": name})


def _check_header_sets(headers: object, team: Team, faults: _Faults) -> None:
    """Check that the site's team has the header sets that the headers use by name."""
    wanted = shared.header_sets_named(headers)
    if not wanted:
        return
    for name in sorted(wanted - set(team.headerset_set.values_list("name", flat=True))):
        words = _("The team %(team)s has no header set “%(name)s”. Add the set under Sites, Shared settings.")
        faults.add("headers", words % {"team": team.name, "name": name})


def check_header_set(row: HeaderSet) -> None:
    """Check the variables of a header set. Any location can use the set, so it cannot use captures of a location's
    regular expression. `headers` is None if a form had no valid headers.
    """
    faults = _Faults()
    faults.variables("headers", [item["value"] for item in row.headers or ()])
    faults.raise_any()


def _check_rewrites(rewrites: list[dict[str, str]], faults: _Faults) -> None:
    for item in rewrites:
        try:
            rewriting.check(Rewrite(item["pattern"], item["replacement"]), "")
        except NotExpressible as error:
            faults.add("rewrites", f"“{item['replacement']}”: {error.message}")
    for _field, message in confinement.rewrite_faults(_rewrites(rewrites)):
        faults.add("rewrites", message)


def _rewrites(items: list[dict[str, str]]) -> tuple[Rewrite, ...]:
    return tuple(Rewrite(item["pattern"], item["replacement"], cast(Any, item.get("flag", ""))) for item in items)


def _check_confined(location: Location, faults: _Faults) -> None:
    """Check that no file path that the location builds from a request can leave the location's folder."""
    made = spec.Location(
        match=cast(Any, location.match),
        pattern=location.pattern,
        handler=cast(Any, location.handler),
        alias=location.alias,
        try_files=tuple(location.try_files),
        rewrites=_rewrites(location.rewrites),
    )
    for field, message in confinement.location_faults(made):
        faults.add(field.partition("/")[0], message)


def _check_cache(location: Location, faults: _Faults, captures: frozenset[str]) -> None:
    faults.variables("cache_key", [location.cache_key], captures)
    for name in ("cache_skip_cookies", "cache_skip_queries", "cache_header", "cache_key"):
        if getattr(location, name) and not location.cache_times:
            faults.add(
                "cache_times", _("Response caching is off. Enter status codes and a time, for example 200 301 = 10m.")
            )
            return


def _check_pattern(location: Location, faults: _Faults) -> None:
    if location.match in ("~", "~*"):
        faults.check("pattern", validators.validate_regex, location.pattern)
        return
    faults.check("pattern", validators.validate_uri_path, location.pattern)
    if "?" in location.pattern:
        faults.add("pattern", _("Locations match paths without the query string. Remove ? and everything after it."))


def _check_handler(location: Location, faults: _Faults) -> None:
    if location.handler == "proxy" and location.upstream is None:
        faults.add("upstream", _("Choose an upstream. If this site has no upstream, add an upstream first."))
    if location.handler == "php" and location.php_pool is None:
        faults.add("php_pool", _("Choose a PHP pool. If this site has no PHP pool, add a PHP pool first."))
    if location.handler == "return":
        _check_return(location, faults)
    for field, message in handlers.protocol_faults(_proxying(location)):
        faults.add("cache_times" if field == "cache" else field, f"{message}.")
    if location.proxy_uri and location.match in ("~", "~*"):
        faults.add("proxy_uri", _("A regular expression has no prefix to replace. Leave this field empty."))


def _proxying(location: Location) -> spec.Location:
    """Return a SiteSpec location with only the fields that `handlers.protocol_faults` checks."""
    return spec.Location(
        match=cast(Any, location.match),
        pattern=location.pattern,
        handler=cast(Any, location.handler),
        upstream_protocol=cast(Any, location.upstream_protocol),
        upstream_tls=location.upstream_tls,
        proxy_uri=location.proxy_uri,
        websocket=location.websocket,
        cache=spec.Cache(valid=()) if location.cache_times else None,
    )


def _check_return(location: Location, faults: _Faults) -> None:
    code, value = location.return_code, location.return_value
    if code is None:
        faults.add("return_code", _("Enter the response status, for example 301 or 404."))
    elif code in validators.REDIRECTS and not value.startswith(("http://", "https://", "/", "$scheme://")):
        faults.add(
            "return_value",
            _("Enter the target of the %s redirect: https://www.example.com$request_uri or /new.") % code,
        )
    elif 300 <= code < 400 and code not in validators.REDIRECTS:
        faults.add("return_code", _("%s is not a redirect status. Use 301, 302, 303, 307, or 308.") % code)


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
    """Check that the location's upstream and PHP pool belong to the location's site. The backend of another team's site
    must not become reachable through this site.
    """
    site_id = location.block.site_id
    if location.upstream is not None and location.upstream.site_id != site_id:
        faults.add("upstream", _("This upstream belongs to another site. Choose an upstream of this site."))
    if location.php_pool is not None and location.php_pool.site_id != site_id:
        faults.add("php_pool", _("This PHP pool belongs to another site. Choose a PHP pool of this site."))


def check_snippet(snippet: RawSnippet) -> None:
    faults = _Faults()
    if snippet.block is not None and snippet.location is not None:
        faults.add("location", _("Raw directives belong to either a server block or a location, not both."))
    if snippet.block is None and snippet.location is None:
        faults.add("block", _("Choose the server block or location for the directives."))
    if snippet.block is not None and snippet.block.site_id != snippet.site_id:
        faults.add("block", _("This server block belongs to another site."))
    if snippet.location is not None and snippet.location.block.site_id != snippet.site_id:
        faults.add("location", _("This location belongs to another site."))
    _check_directives(snippet, faults)
    faults.raise_any()


def _check_directives(snippet: RawSnippet, faults: _Faults) -> None:
    """Check raw directives by the grammar and policy of the site's web server.

    Directives for another kind of web server are checked when the site is planned for a web server of that kind.
    """
    try:
        lines = list(shared.directive_lines(snippet.text, snippet.directive_sets()))
    except ApplicationError as error:
        faults.add("text", error.message)
        return
    web_server = snippet.site.web_server
    if web_server is None or web_server.engine != snippet.engine:
        return
    text = "\n".join(line.text for line in lines)
    place = "server" if snippet.location is None else "location"
    for problem in snippets.check(text, web_server_specs.web_server_spec_for(snippet.site, web_server), place):
        line = lines[min(problem.line, len(lines)) - 1]
        words = f"directive set “{line.name}”, " if line.name else ""
        faults.add("text", f"{words}{replace(problem, line=line.number)}")
    for target in claims.raw_claims(text, snippet.engine, "text"):
        if reason := addresses.why_refused(targets.target_of(target.value).host):
            words = _("%(address)s is %(reason)s. Sites cannot use it.")
            faults.add("text", words % {"address": target.value, "reason": reason})


def check_upstream(upstream: Upstream) -> None:
    faults = _Faults()
    if upstream.host_tags and upstream.host_port is None:
        faults.add("host_port", _("Enter the port on which the application listens on these hosts."))
    if upstream.host_port is not None and not upstream.host_tags:
        faults.add("host_tags", _("Enter the tags of the hosts, or clear the port."))
    faults.raise_any()


def check_allowance(row: Allowance) -> None:
    """Normalize the value of an allowance for lookups; check its team and host, and that no equal allowance exists."""
    faults = _Faults()
    if row.kind == "service":
        if row.host is None:
            faults.add("host", _("Choose the host that the local service runs on."))
    elif row.team is None:
        faults.add("team", _("Choose the team that may use this name or address."))
    if row.kind in _ALLOWED_VALUES:  # the field itself reports a missing or unknown kind
        try:
            row.value = _ALLOWED_VALUES[row.kind](row.value)
        except ValidationError as error:
            faults.messages.setdefault("value", []).extend(error.messages)
    faults.raise_any()
    same = type(row)._default_manager.filter(kind=row.kind, value=row.value, team=row.team, host=row.host)
    if same.exclude(pk=row.pk).exists():
        raise ValidationError({"value": _("%s is already listed for this team and host.") % row.value})


def _socket(value: str) -> str:
    """Return a socket (`127.0.0.1:80`, `[::1]:80`, `*:80`) in canonical form. Raises ValidationError for other text."""
    found = re.fullmatch(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<v4>[0-9.]+)|\*):(?P<port>[0-9]{1,5})", value.strip())
    try:
        if found is None or not 1 <= int(found["port"]) <= 65535:
            raise ValueError
        return claims.socket_text(claims.address_canonical(found["v6"] or found["v4"] or ""), int(found["port"]))
    except ValueError as error:
        raise ValidationError(
            _("Enter an address and a port, for example 127.0.0.1:80, [::1]:443, or *:80.")
        ) from error


def _service(value: str) -> str:
    try:
        return targets.service_canonical(value)
    except ValueError as error:
        raise ValidationError(str(error)) from error


_ALLOWED_VALUES: dict[str, Callable[[str], str]] = {
    "name": lambda value: validators.server_name_normalized(value.strip()),
    "address": _socket,
    "default": _socket,
    "service": _service,
}
