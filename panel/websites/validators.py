"""Validators of single texts. Their error messages show a valid form.
Model fields use them, so that pages, the API, imports and jobs all apply them through `full_clean()`. The engine
modules quote values; these validators only reject values that no web server could use.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterable

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.host import addresses
from panel.rendering import pcre
from panel.rendering.errors import NotExpressible
from panel.websites.address_names import address_name_normalized, is_ipv4

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.IGNORECASE)
TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 section 5.6.2
EXPIRES = re.compile(r"off|max|epoch|-?[0-9]+|-?(?:[0-9]+[smhdwMy])+")
# IDNA 2003 (Python's codec) and IDNA 2008 differ in these four characters.
_IDNA_DEVIATIONS = {"ß", "ς", "\u200c", "\u200d"}
_NAMES = {
    "\n": gettext_lazy("a line break"),
    "\r": gettext_lazy("a carriage return"),
    "\0": gettext_lazy("a NUL byte"),
    "\t": gettext_lazy("a tab"),
}
REDIRECTS = {301, 302, 303, 307, 308}


def _name_of(character: str) -> str:
    return str(_NAMES.get(character, "")) or unicodedata.name(character, f"U+{ord(character):04X}")


_ONE_LINE = gettext_lazy("Enter a single line without %(what)s; server settings cannot contain it.")
_LINES = gettext_lazy("Remove %(what)s; configuration files cannot contain it.")


def refuse_control_characters(value: str, allowed: str = "") -> None:
    """Reject line breaks, NUL and similar, which would end a directive and begin another."""
    for character in value:
        if character in allowed:
            continue
        if unicodedata.category(character) in {"Cc", "Zl", "Zp", "Cs"}:
            raise ValidationError(
                _LINES if allowed else _ONE_LINE,
                params={"what": _name_of(character)},
                code="control_character",
            )


def validate_line(value: str) -> None:
    """Validate one line of text: no line breaks or other control characters."""
    refuse_control_characters(value)


def validate_health_header(value: str) -> None:
    """Validate a request header in one line, which must not be a header that Paddock sets itself."""
    name, colon, text = value.partition(":")
    if not colon:
        raise ValidationError(_("Enter a name and a value, for example `X-Check: paddock`."))
    validate_header_name(name.strip())
    validate_header_value(text.strip())
    if name.strip().lower() in ("host", "connection", "content-length", "transfer-encoding", "upgrade", "expect"):
        raise ValidationError(_("Paddock sets the header %(name)s itself."), params={"name": name.strip()})


def validate_text(value: str) -> None:
    """Validate text of several lines: no control characters except line feeds and tabs."""
    refuse_control_characters(value, "\n\t")


def validate_slug(value: str) -> None:
    """Validate a name that becomes part of file names: lowercase letters and digits, with hyphens between them."""
    if not SLUG.fullmatch(value):
        raise ValidationError(
            _("Use lowercase letters a-z and digits, with single hyphens between them, for example my-shop-2."),
            code="slug",
        )


def _ascii_name(name: str) -> str:
    """Return a domain name in A-label form (RFC 5890) in lower case. Raises ValidationError for an invalid name."""
    if name.isascii():
        return name.lower()
    if _IDNA_DEVIATIONS & set(name):
        raise ValidationError(
            _("Browsers encode a letter in %(name)s in different ways. Use its punycode form, which starts with xn--."),
            params={"name": name},
            code="domain",
        )
    try:
        return name.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        raise ValidationError(
            _("%(name)s is not a valid domain name: %(why)s"),
            params={"name": name, "why": str(error)},
            code="domain",
        ) from error


def _check_labels(name: str) -> None:
    """Check the labels and length of an ASCII domain name by RFC 1123 section 2.1."""
    for label in name.split("."):
        if not label:
            raise ValidationError(
                _(
                    "%(name)s has two dots in a row, or a dot at the start or end. Enter a name such as "
                    "www.example.com."
                ),
                params={"name": name},
                code="domain",
            )
        if not LABEL.fullmatch(label):
            raise ValidationError(
                _(
                    "The part “%(label)s” of %(name)s is not valid. Use up to 63 letters, digits, and "
                    "hyphens, without a hyphen at the start or end."
                ),
                params={"label": label, "name": name},
                code="domain",
            )
    if len(name) > 253:
        raise ValidationError(_("This domain name is longer than 253 characters."), code="domain")


def domain_normalized(value: str) -> str:
    """Return a host name in its DNS form: `Bücher.Example` -> `xn--bcher-kva.example`. IPv4 addresses are accepted.
    Raises ValidationError for anything else.
    """
    refuse_control_characters(value)
    if "://" in value or "/" in value:
        raise ValidationError(_("Enter only the name, for example www.example.com, without http:// and path."))
    name = _ascii_name(value)
    if is_ipv4(name):
        return name
    if re.fullmatch(r"[0-9.]+", name):
        raise ValidationError(_("%(name)s is neither a domain name nor an IPv4 address."), params={"name": value})
    _check_labels(name)
    return name


def server_name_normalized(value: str) -> str:
    """Return a server name in its stored form: `a.example`, `*.a.example`, `.a.example`, `www.*`, `[v6]` or
    `~regex`.
    """
    if value.startswith("~"):
        validate_regex(value[1:])
        return value
    if value.startswith("["):
        return address_name_normalized(value)
    if value == "_":
        raise ValidationError(_("To accept any name, leave the names empty and add default to the address."))
    for prefix in ("*.", "."):
        if value.startswith(prefix):
            return prefix + _wildcard_rest(value, value[len(prefix) :])
    if value.endswith(".*"):
        return _wildcard_rest(value, value[:-2]) + ".*"
    return _wildcard_rest(value, value)


def _wildcard_rest(value: str, rest: str) -> str:
    if "*" in rest:
        raise ValidationError(
            _("In %(name)s, * must be the complete first or last part, for example *.example.com or www.*."),
            params={"name": value},
            code="domain",
        )
    if not rest:
        raise ValidationError(_("Enter a domain name, for example www.example.com."), code="domain")
    return domain_normalized(rest)


def named_faults(name: str, error: ValidationError) -> list[str]:
    """Return the messages of `error`, which concerns `name`; add the name to messages that lack it."""
    return [text if not name or name in text else f"“{name[:80]}”: {text}" for text in error.messages]


def server_names_normalized(names: Iterable[str]) -> list[str]:
    """Return the server names in their stored form. One ValidationError reports all invalid names and duplicates."""
    found: list[str] = []
    faults: list[str] = []
    for name in names:
        try:
            normalized = server_name_normalized(name)
        except ValidationError as error:
            faults += named_faults(name, error)
            continue
        if normalized in found:
            faults.append(_("%s appears twice.") % normalized)
        found.append(normalized)
    if faults:
        raise ValidationError(faults)
    return found


def validate_server_name(value: str) -> None:
    server_name_normalized(value)


_PCRE_ONLY = (
    (re.compile(r"\(\?<(?![=!])"), "(?P<"),  # named groups
    (re.compile(r"(?<!\\)((?:\\\\)*)\\z"), r"\1\\Z"),
    (re.compile(r"(?<!\\)((?:\\\\)*)\\[hR]"), r"\1\\s"),
    (re.compile(r"(?<!\\)((?:\\\\)*)\\[KGQE]"), r"\1"),
    (re.compile(r"\[:\^?[a-z]+:\]"), "a-z"),  # POSIX classes
)


def validate_regex(value: str) -> None:
    """Validate a PCRE expression with Python's parser, after converting PCRE's own syntax, and with PCRE if installed.
    The web server's own test before a deployment can still reject the expression.
    """
    refuse_control_characters(value)
    if not value:
        raise ValidationError(_("Enter a regular expression, for example \\.php$"), code="regex")
    translated = value
    for pattern, replacement in _PCRE_ONLY:
        translated = pattern.sub(replacement, translated)
    try:
        re.compile(translated)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValidationError(
            _("This regular expression is not valid: %(why)s. Escape literal brackets and plus signs with \\."),
            params={"why": str(error)},
            code="regex",
        ) from error
    try:
        pcre.compiled(value)
    except pcre.Missing:
        return  # the server's own test decides
    except NotExpressible as error:
        raise ValidationError(error.message, code="regex") from error


def validate_path(value: str) -> None:
    """Validate an absolute, normalized path on a host."""
    refuse_control_characters(value)
    if not value.startswith("/"):
        raise ValidationError(_("Enter the absolute path, for example /srv/www/example."), code="path")
    if "$" in value:
        raise ValidationError(_("Paths cannot contain $ variables. Enter the folder's real name."), code="path")
    segments = value[1:].rstrip("/").split("/")
    if any(segment in {"..", "."} for segment in segments):
        raise ValidationError(_("Paths cannot contain . or .. as a part. Enter the resolved path."), code="path")
    if "" in segments and value != "/":
        raise ValidationError(_("This path contains two slashes in a row. Use one slash."), code="path")


def validate_log_path(value: str) -> None:
    """Validate a log path: `off`, or an absolute path that ends in .log, so that a log never becomes a page or code."""
    if value == "off":
        return
    validate_path(value)
    if not value.endswith(".log"):
        raise ValidationError(_("Enter a log path that ends in .log, for example /var/log/nginx/shop.log, or off."))


def validate_uri_path(value: str) -> None:
    """Validate the path of a request, for example /health."""
    refuse_control_characters(value)
    if not value.startswith("/"):
        raise ValidationError(_("Enter a path that starts with /, for example /health."), code="uri")
    if " " in value:
        raise ValidationError(_("Request paths cannot contain spaces. Use %%20."), code="uri")
    if "/../" in value + "/":
        raise ValidationError(_("Request paths cannot contain .. as a part. Enter the resolved path."), code="uri")


def validate_header_name(value: str) -> None:
    if not TOKEN.fullmatch(value):
        raise ValidationError(
            _("%(name)s is not a header name. Use letters, digits, and hyphens, for example X-Frame-Options."),
            params={"name": value or _("An empty text")},
            code="header",
        )


def validate_header_value(value: str) -> None:
    """Validate a header value by RFC 9110 section 5.5: visible ASCII characters, with spaces and tabs between them."""
    refuse_control_characters(value, "\t")
    if not value.isascii():
        raise ValidationError(_("Header values must be ASCII. Encode other letters as %%C3%%BC or remove them."))
    if value != value.strip():
        raise ValidationError(_("Header values cannot start or end with a space."), code="header")


def validate_expires(value: str) -> None:
    if not EXPIRES.fullmatch(value):
        raise ValidationError(
            _("Enter off, max, epoch, or a time such as 30d, 12h, or -1 (no caching). Units: s m h d w M y."),
            code="expires",
        )


def validate_listen_address(value: str) -> None:
    """Validate an IPv4 or IPv6 address, without brackets, that a site may listen on."""
    try:
        ipaddress.ip_address(value)
    except ValueError as error:
        raise ValidationError(
            _(
                "%(value)s is not an IP address. Leave the address out for all IPv4 addresses, or use :: "
                "for all IPv6 addresses."
            ),
            params={"value": value},
            code="address",
        ) from error
    if reason := addresses.why_refused(value):
        raise ValidationError(
            _("%(address)s is %(reason)s: no site may listen on this address."),
            params={"address": value, "reason": reason},
            code="address",
        )
    if "%" in value:
        raise ValidationError(_("Enter the address without its interface (%%…)."), code="address")


def validate_access_source(value: str) -> None:
    """Validate `all`, an address, or a network in CIDR form without host bits."""
    if value == "all":
        return
    try:
        ipaddress.ip_network(value)
    except ValueError as error:
        try:
            right = str(ipaddress.ip_network(value, strict=False))
        except ValueError:
            right = "10.0.0.0/8, 192.0.2.7, 2001:db8::/32"
        raise ValidationError(
            _("%(value)s is not a network. Enter %(right)s, or all."), params={"value": value, "right": right}
        ) from error


def validate_rule_source(value: str) -> None:
    """Validate the source of an access rule: `all`, an address, a network, or `@name` of an access list."""
    if value.startswith("@"):
        validate_slug(value[1:])
    else:
        validate_access_source(value)


def validate_upstream_address(value: str) -> None:
    """Validate `host:port`, `[v6]:port` or `unix:/path`."""
    refuse_control_characters(value)
    if value.startswith("unix:"):
        validate_path(value[len("unix:") :])
        if re.search(r"[\s:]", value[len("unix:") :]):
            raise ValidationError(
                _("Socket paths cannot contain spaces or colons. Enter a path such as unix:/run/app.sock")
            )
        return
    match = re.fullmatch(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]]+)):(?P<port>[0-9]{1,5})", value)
    if not match or not 1 <= int(match["port"]) <= 65535:
        raise ValidationError(
            _("%(value)s is not a valid address. Enter host:port, [IPv6]:port, or unix:/path."),
            params={"value": value},
            code="address",
        )
    _check_upstream_host(match["v6"], match["host"])


def _check_upstream_host(v6: str | None, host: str | None) -> None:
    """Validate the host of an upstream address: a name, or an IP address in its usual notation that sites may use."""
    text = v6 if v6 is not None else domain_normalized(host or "") if not addresses.packed(host or "") else str(host)
    if reason := addresses.why_refused(text):
        raise ValidationError(
            _("%(address)s is %(reason)s. Sites cannot use it."),
            params={"address": text, "reason": reason},
            code="address",
        )
    address = addresses.packed(text)
    if v6 is not None and address is None:
        raise ValidationError(_("[%(v6)s] is not an IPv6 address."), params={"v6": v6})
    if v6 is None and address is not None and addresses.written(address) != text:
        raise ValidationError(
            _("%(text)s is another spelling of %(usual)s. Enter %(usual)s."),
            params={"text": text, "usual": addresses.written(address)},
            code="address",
        )


def validate_realm(value: str) -> None:
    """Validate the realm that a browser shows in its password prompt: ASCII without quotation marks and backslashes."""
    refuse_control_characters(value)
    if not value.isascii() or '"' in value or "\\" in value:
        raise ValidationError(_('Enter the realm in plain ASCII letters, without " and \\.'), code="realm")
