"""Render contexts with a single rewrite rule: fixed responses, and upstreams that receive a different path.

Such a context applies its headers and access rules before its rule. A rule of the virtual host applies neither, because
it runs before a context is chosen. But a rule of the virtual host is shorter than a context, and suffices for locations
without headers and access rules.

A context's rules see the path without its rewrite base, which ends in `/` and is not `/`. Without a base, a
regular-expression context removes its `location`, here the whole path (RewriteEngine::processRuleSet,
HttpReq::stripRewriteBase in src/http). So a context's rule cannot use a part of the path. If the target of a redirect
contains a part of the path, a rule of the virtual host records the target for the rule of the context.
"""

from __future__ import annotations

from dataclasses import replace

from panel.rendering import exclusive, expiry, handlers, variables
from panel.rendering.apache import rewriting
from panel.rendering.apache.quoting import line, rewrite_regex
from panel.rendering.apache.rewriting import Rewritten
from panel.rendering.errors import NotExpressible
from panel.rendering.exclusive import Condition, Expression
from panel.rendering.locations import Place
from panel.rendering.openlitespeed import answers
from panel.rendering.openlitespeed.formats import in_own_words, server_name
from panel.rendering.openlitespeed.hosts import upstream_app
from panel.rendering.openlitespeed.quoting import value
from panel.rendering.spec import Location, ServerBlock, SiteSpec
from panel.rendering.tree import Directive, Lines, Node, block, directive

TO = "PADDOCK_TO"
_PLAIN_PATH = "(?=[A-Za-z0-9/._~!$&()*+,;=:@-]*$)"
_OF_PATHS = {"uri", "document_root", "request_filename"}
# Statuses for which nginx sends expiry times and all headers.
PLAIN = (200, 201, 204, 206, 301, 302, 303, 304, 307, 308)


def answers_here(source: Location, inside: ServerBlock) -> bool:
    """Return whether a context's rewrite rule sends the location's fixed response, instead of a rule of the virtual
    host.

    A context does so for responses with headers, access control, a text, an expiry time, or `$uri` in a redirect's
    target.
    """
    if not answers.is_rule(source):
        return False
    says_more = _says_more(source, inside) or error_text(source) or (names_path(source) and _names_uri(source))
    return bool(says_more or (source.expires and source.return_code in PLAIN))


def names_path(source: Location) -> bool:
    """Return whether the location is a redirect whose target contains the request's path or a part of the path."""
    captures = handlers.captures(source)
    names = variables.names(source.return_value, captures) if source.return_code in handlers.REDIRECTS else set()
    return any(name in captures | _OF_PATHS or name.isdigit() for name in names)


def error_text(source: Location) -> str:
    """Return the text of a fixed error response; "" if it has no text, or a text that OpenLiteSpeed cannot send, such
    as one with variables.
    """
    if source.handler != "return" or (source.return_code or 0) < 400 or not source.return_value:
        return ""
    try:
        parts = variables.parse(source.return_value, "", captures=handlers.captures(source))
        text = "".join(part for part in parts if isinstance(part, str))
        return value(f'"{text}', "")[1:] if all(isinstance(part, str) for part in parts) else ""
    except NotExpressible:
        return ""


def proxies_here(source: Location, inside: ServerBlock) -> bool:
    """Return whether a context's rewrite rule builds the path for the location's upstream, so that the context's
    headers and access rules apply.
    """
    replaced = source.handler == "proxy" and bool(source.proxy_uri) and _base(source) != "/"
    return replaced and (_says_more(source, inside) or bool(source.expires))


def is_here(source: Location, inside: ServerBlock) -> bool:
    return answers_here(source, inside) or proxies_here(source, inside)


def _says_more(source: Location, inside: ServerBlock) -> bool:
    everywhere = inside.headers or inside.hsts_max_age_s is not None
    return bool(everywhere or source.headers or source.request_headers) or handlers.asks_access(source)


def body(spec: SiteSpec, place: Place) -> list[Node]:
    """Return the body of a context with one rewrite rule. The caller adds headers and access control."""
    nothing = [directive("location", "/"), directive("allowBrowse", 0)]
    inside: list[Node] = [directive("enable", 1)]
    if place.location.handler == "proxy":
        nothing.append(directive("addDefaultCharset", "off"))
        inside.append(directive("base", value(_base(place.location), f"{place.pointer}/pattern")))
        rules = _proxied(spec, place)
    else:
        rules = _answered(spec, place)
    inside.append(Lines("rules", tuple(line(rule) for rule in rules)))
    return [*nothing, *_text(place.location), block("rewrite", body=inside, gap=False)]


def _text(source: Location) -> list[Node]:
    """Return the directive with the text of an error response; [] if the location has none.

    If `url` begins with a quotation mark, OpenLiteSpeed sends the text after the mark instead of a file
    (HttpSession::sendHttpError in src/http).
    """
    if not (text := error_text(source)):
        return []
    return [block("errorpage", source.return_code or 0, body=[directive("url", f'"{text}')], gap=False)]


def times(source: Location, at: str) -> list[str]:
    """Return the header lines for `expires` of a fixed response. Expires itself is left out if the date depends on the
    current time.
    """
    if not source.expires or source.return_code not in PLAIN:
        return []
    found = expiry.parse(source.expires, f"{at}/expires")
    if found.kind == "off":
        return []
    if found.no_cache or found.kind == "max":
        return dated(expiry.NEVER if found.no_cache else expiry.FOREVER)
    return [f"Header set Cache-Control max-age={found.seconds}"]


def dated(times: tuple[str, str]) -> list[str]:
    """Return header lines for Expires and Cache-Control; `times` is (value of Expires, value of Cache-Control)."""
    return [f"Header set Cache-Control {times[1]}", f"Header set Expires {times[0]}"]


def _base(source: Location) -> str:
    return source.pattern[: source.pattern.rindex("/") + 1]


def _answered(spec: SiteSpec, place: Place) -> list[Directive]:
    if names_path(place.location):
        said = f"%{{ENV:{TO}}}"
        flags = f"[R={place.location.return_code},NE,QSD,L]"
        return [directive("RewriteCond", said, "!^$"), directive("RewriteRule", "^", said, flags)]
    return _redirected(spec, place, Condition(Expression("^"), ()))


def _redirected(spec: SiteSpec, place: Place, condition: Condition, *, of_rule: bool = False) -> list[Directive]:
    """Return the rewrite rules of a fixed response.

    `of_rule`: take `$uri` from group 0 of the rule's pattern, which must match the whole path.
    """
    number = int(place.pointer.split("/")[2])
    words = rewriting.interpolator(place, server_name(spec, number))
    words = words.of_the_rule() if of_rule else words
    rules = rewriting.rules(Rewritten(place, condition, "", words, ",QSD"))
    return in_own_words(rules, spec.blocks[number])


def recorded(spec: SiteSpec, place: Place, condition: Condition) -> list[Directive]:
    """Return rewrite rules of the virtual host that record the target of a redirect for a rule of the location's
    context.

    nginx decodes `$uri` into the target, line breaks included. These rules decode only a path of plain letters.
    """
    source = place.location
    if not answers_here(source, spec.blocks[int(place.pointer.split("/")[2])]) or not names_path(source):
        return []
    found = _recorded(_redirected(spec, place, condition))
    if _names_uri(source):
        whole = replace(condition, own=Expression(f"^{_PLAIN_PATH}{condition.to_the_end()[1:]}"), but_not=())
        found += _recorded(_redirected(spec, place, whole, of_rule=True))
    return found


def _recorded(rules: list[Directive]) -> list[Directive]:
    *tests, rule = rules
    pattern, url, flags = rule.args
    target = directive("RewriteCond", url, "(?s)^(.*)$")
    return [*tests, target, replace(rule, args=(pattern, "-", f"[E={TO}:%1{',NC' if ',NC' in flags else ''}]"))]


def _names_uri(source: Location) -> bool:
    return "uri" in variables.names(source.return_value, handlers.captures(source))


def _proxied(spec: SiteSpec, place: Place) -> list[Directive]:
    source, at = place.location, place.pointer
    rest = exclusive.quote(source.pattern.removeprefix(_base(source)))
    url = f"http://{upstream_app(spec, source, at)}{source.proxy_uri}$1"
    return [directive("RewriteRule", rewrite_regex(f"^{rest}(?s:(.*))$", f"{at}/pattern"), url, "[P,L]")]
