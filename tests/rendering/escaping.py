"""Whether a value got out of its word: what was rendered with it has the shape of what is rendered with a harmless one.

Used by the property tests of each engine's quoting and by the long run (tests/suites/conformance/quoting.py).
"""

from __future__ import annotations

from functools import cache

from panel.rendering import confinement, names, render, render_web_server, variables
from panel.rendering.errors import NotExpressible
from panel.rendering.expiry import parse as parse_expiry
from panel.rendering.readers import Read, engines
from panel.rendering.spec import WebServerSpec
from tests.rendering.hostile import FIELDS, HARMLESS, HARMLESS_VALUES

WEB_SERVERS = {
    "nginx": WebServerSpec("nginx", "conf_d", "/etc/nginx", "/var/log", "1.22.1", site_roots=("/srv",)),
    "gallop": WebServerSpec("native", "conf_d", "/etc/gallop", "/var/log", site_roots=("/srv",)),
    "apache": WebServerSpec("apache", "conf_d", "/etc/httpd", "/var/log", site_roots=("/srv",)),
    "openlitespeed": WebServerSpec(
        "openlitespeed", "vhosts", "/usr/local/lsws/conf", "/var/log", site_roots=("/srv",)
    ),
}  # fmt: skip
READERS = {name: engines.READERS[web_server.engine] for name, web_server in WEB_SERVERS.items()}
BUILT_PATHS = ("block try_files", "try_files", "rewritten path", "location rewrite")
Shape = tuple[object, ...]


def texts(engine: str, field: str, value: str) -> list[str]:
    """The configuration files of a site with this value there; NotExpressible where the value is refused."""
    spec, web_server = FIELDS[field](value), WEB_SERVERS[engine]
    files = render(spec, web_server)
    if engine == "openlitespeed":
        # A fixed answer lies in a file of its own, as it is.
        return [file.text for file in [*files, *render_web_server([spec], web_server)] if file.path.endswith(".conf")]
    return [files[0].text]


def fault(engine: str, field: str, value: str, written: list[str]) -> str:
    """What the value changed besides itself; empty when nothing."""
    ours, plain = [shape(engine, text) for text in written], harmless(engine, field, _like(engine, field, value))
    if ours == plain:
        return ""
    return f"{engine}, {field} {value!r}: read back as {ours}, not {plain}"


def shape(engine: str, text: str) -> Shape:
    return tuple(_SHAPES[engine](item) for item in READERS[engine](text) if item.name != "geo")


@cache
def harmless(engine: str, field: str, value: str) -> list[Shape]:
    return [shape(engine, text) for text in texts(engine, field, value)]


def _of_apache(item: Read) -> object:
    """The rewrite rules' conditions follow from variables in a value, and so do folders."""
    inner = tuple(
        _of_apache(child) for child in item.body or () if child.name not in ("RewriteCond", "RewriteRule", "Directory")
    )
    return (item.name, None if item.name == "RewriteRule" else len(item.args), inner)


def _of_openlitespeed(item: Read) -> object:
    return (item.name, len(item.args), tuple(_of_openlitespeed(child) for child in item.body or ()))


def _of_nginx(item: Read) -> object:
    """What a map's lines begin with are values, no directives."""
    if item.name == "map":
        return (item.name, len(item.args), tuple(len(child.args) for child in item.body or ()))
    return item.shape()


_SHAPES = {
    "nginx": _of_nginx, "gallop": _of_nginx, "apache": _of_apache, "openlitespeed": _of_openlitespeed,
}  # fmt: skip


def _like(engine: str, field: str, value: str) -> str:
    """A harmless value of the same kind: what is written follows from the kind of name, time or path."""
    plain = HARMLESS_VALUES.get(field, HARMLESS)
    if field == "server name":
        return _name_like(value)
    if field == "expires":
        return _time_like(value)
    if field == "alias" and value.endswith("/"):
        return plain + "/"  # required, because the location ends with /
    if engine in ("nginx", "gallop") and field in BUILT_PATHS:
        return _path_like(field, value)
    if engine != "openlitespeed":
        return plain
    if field == "return body" and not _is_text(value):
        return "$host"
    if field == "return url" and "uri" in variables.names(value):
        return "$uri"  # only a rule of the virtual host can say the path
    if "prefix" in field and value.endswith("/"):
        return plain + "/"  # a prefix context; without the final / it is a regular expression
    return plain


def _is_text(value: str) -> bool:
    """Whether a fixed answer is a file: there are no variables in it."""
    return all(isinstance(part, str) for part in variables.parse(value, "/")) and bool(value)


def _name_like(value: str) -> str:
    alike = {"leading": "*.plain", "dot": ".plain", "trailing": "plain.*", "regex": "~plain", "exact": "plain"}
    return alike[names.kind(value)]


def _path_like(field: str, value: str) -> str:
    """A harmless path that requires the same check at request time: for `..`, for line breaks, or none."""
    spec = FIELDS[field](value)
    if any(confinement.refuses_line_breaks(block) for block in spec.blocks):
        return "(.*)$1?"
    return "..$uri" if confinement.needs_checks(spec) else HARMLESS


def _time_like(value: str) -> str:
    if value in ("off", "max", "epoch"):
        return value
    found = parse_expiry(value, "/expires")
    return "-1" if found.seconds < 0 else "7d"


def written_or_refused(engine: str, field: str, value: str) -> list[str] | None:
    """What was written, or None when the value is refused by name."""
    try:
        return texts(engine, field, value)
    except NotExpressible as refusal:
        assert refusal.field.startswith("/"), refusal
        return None
