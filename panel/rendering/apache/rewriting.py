"""Render fixed responses, redirects and try_files as rewrite rules, which run before Apache maps a path to a file.

The rules are at virtual-host level, where patterns see the whole path and `[PT]` repeats the choice of location for a
rewritten path, like nginx's internal redirect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from panel.rendering import challenges, confinement, exclusive, handlers
from panel.rendering.apache import encoding, rewrites
from panel.rendering.apache.quoting import RAW_URI, Interpolator, one_quote, rewrite_regex, target
from panel.rendering.checks import version_of
from panel.rendering.choice import with_slash
from panel.rendering.confinement import Verdict
from panel.rendering.errors import NotExpressible
from panel.rendering.exclusive import Condition
from panel.rendering.locations import Locations, Place
from panel.rendering.spec import Location, ServerBlock, SiteSpec, WebServerSpec
from panel.rendering.tree import Directive, directive

# THE_REQUEST holds the path as the client sent it; an absolute request target is reduced to its path, as in nginx.
RAW_URI_RULES = (
    directive("RewriteCond", "%{THE_REQUEST}", r"^\S+ (?:https?://[^/?]*)?(\S*)", comment="The original path"),
    directive("RewriteRule", "^", "-", f"[E={RAW_URI}:%1]"),
)


def raw_uri_flag(web_server: WebServerSpec) -> str:
    """Return ",UnsafeAllow3F", a flag for rules that insert the path as the client sent it; "" before Apache 2.4.60.

    Without the flag, later versions reject a rule's result with ? if the request contained %3F.
    """
    return ",UnsafeAllow3F" if version_of(web_server) >= (2, 4, 60) else ""


def encodes_queries(web_server: WebServerSpec) -> bool:
    """Return whether Apache has the rewrite flag BCTLS (2.4.57), which encodes spaces and control characters."""
    return version_of(web_server) >= (2, 4, 57)


def _encoded(result: str, tests: list[tuple[str, str]], flags: str, *, redirects: bool) -> tuple[str, str]:
    """Return target and flags of a rewrite rule, changed so that httpd encodes the variables in the query.

    The flags B and BCTLS encode captures only, so a condition added to `tests` captures `$uri`. Unencoded, a space in
    the query would be rejected, and a # would end the query. Unless the rule redirects, a target with captures in its
    path stays unchanged, because the path names a file.
    """
    path, mark, query = result.partition("?")
    inserted = "%{REQUEST_URI}" in query
    if not mark or not (inserted or re.search(r"\$\d", query)) or (not redirects and re.search(r"\$\d", path)):
        return result, flags
    if inserted:
        tests.append(("%{REQUEST_URI}", "(?s)^(.*)$"))
        query = query.replace("%{REQUEST_URI}", "%1")
    return path + mark + query, f"[B={encoding.FALLBACKS},BCTLS,BNP,{flags[1:]}"


def body_limits(source: ServerBlock, conditions: Mapping[Place, Condition]) -> list[Directive]:
    """Return rewrite rules that limit request bodies; [] if no location passes requests to PHP or to an upstream.

    LimitRequestBody does not suffice: it ignores proxied requests, and any path can fall back to a proxying location.
    """
    if not any(place.location.handler in ("php", "proxy") for place in conditions):
        return []
    own = [place for place in conditions if place.location.client_max_body_mb is not None]
    found: list[Directive] = []
    if source.client_max_body_mb:
        tests = [_larger_than(source.client_max_body_mb)]
        for place in own:
            expression = rewrite_regex(conditions[place].as_one(), f"{place.pointer}/pattern")
            tests.append(("%{REQUEST_URI}", f"!{expression}"))
        found += [directive("RewriteCond", subject, test) for subject, test in tests]
        found.append(directive("RewriteRule", "^", "-", "[R=413,L]"))
    for place in own:
        if megabytes := place.location.client_max_body_mb:
            found += rule(conditions[place], [_larger_than(megabytes)], "-", "[R=413,L]", place.pointer)
    return found


def _larger_than(megabytes: int) -> tuple[str, str]:
    return "%{HTTP:Content-Length}", f"-gt {megabytes * 1024 * 1024}"


def interpolator(place: Place, server_name: str) -> Interpolator:
    """Return an Interpolator that numbers captures as in the location's own regular expression."""
    names = handlers.captures(place.location)
    captures: dict[str, str] = {}
    if place.is_regex:
        count = len(exclusive.groups(place.pattern))
        captures = {str(number): str(number) for number in range(1, count + 1)}
        captures |= {name: str(exclusive.number_of(place.pattern, name)) for name in names}
    return Interpolator(server_name, captures, names)


@dataclass(frozen=True)
class Rewritten:
    """One location that rewrite rules handle, with the data for its rules.

    `root` is the server block's folder. `fallback` is the location for the last item of the location's try_files, if
    known. `encodes`: the server supports the rewrite flag BCTLS. `anew`: a fallback to another folder needs a new
    internal request (httpd only; OpenLiteSpeed chooses contexts by the rewritten path).
    """

    place: Place
    condition: Condition
    root: str
    words: Interpolator
    allow_mark: str
    fallback: Place | None = None
    encodes: bool = False
    anew: bool = False


def rules(one: Rewritten, *, falls_back_later: bool = False) -> list[Directive]:
    """Return the rewrite rules of one location.

    `falls_back_later`: return no rules for a location that `rules_inside` handles after access control.
    """
    source = one.place.location
    if falls_back_later and is_checked_first(source):
        return []
    if source.handler == "return":
        return _answer(one, [], one.place)
    if source.try_files and source.handler in ("static", "php"):
        return _try_files(one)
    return []


def rule(
    condition: Condition, tests: list[tuple[str, str]], result: str, flags: str, at: str, comment: str = ""
) -> list[Directive]:
    """Return one rewrite rule for the paths of the `condition`, with conditions for excluded paths and the `tests`."""
    found: list[Directive] = []
    if condition.alone and any("$0" in subject for subject, _ in tests):
        condition = Condition(exclusive.Expression(condition.to_the_end()), ())
    elif condition.alone and condition.but_not:
        condition = Condition(exclusive.Expression(condition.as_pattern()), ())
    for item in condition.but_not:
        nocase = ["[NC]"] if item.nocase else []
        found.append(
            directive("RewriteCond", "%{REQUEST_URI}", "!" + rewrite_regex(item.text, f"{at}/pattern"), *nocase)
        )
    found += [directive("RewriteCond", subject, test) for subject, test in tests]
    if condition.own.nocase:
        flags = f"{flags[:-1]},NC]"
    found.append(directive("RewriteRule", rewrite_regex(condition.own.text, f"{at}/pattern"), result, flags))
    if comment:
        found[0] = directive(found[0].name, *found[0].args, comment=comment)
    return found


def _answer(one: Rewritten, tests: list[tuple[str, str]], place: Place) -> list[Directive]:
    """Return the rewrite rule that sends the fixed response of `place`: the location of `one`, or its fallback."""
    source, at = place.location, place.pointer
    if source.return_code in handlers.REDIRECTS:
        url = one.words.in_target(source.return_value, f"{at}/return_value")
        mark = one.allow_mark if "$request_uri" in source.return_value else ""
        discard = "" if "?" in source.return_value or "$request_uri" in source.return_value else ",QSD"
        flags = f"[R={source.return_code},NE{discard}{mark},L]"
        tests = list(tests)
        if one.encodes:
            url, flags = _encoded(url, tests, flags, redirects=True)
        return rule(one.condition, tests, url, flags, at)
    return rule(one.condition, tests, "-", f"[R={source.return_code},L]", at)


def _try_files(one: Rewritten) -> list[Directive]:
    """Return one rewrite rule per item of try_files except `$uri` and `$uri/`, then one for the fallback."""
    place, source = one.place, one.place.location
    if not (source.root or one.root or source.alias):
        raise NotExpressible(
            f"{place.pointer}/try_files", "the location has no root for its files; set a root in the server block"
        )
    one = replace(one, condition=with_rest(place, one.condition))
    *files, last = source.try_files
    if last == "=404" and {item.rstrip("/") for item in files} == {"$uri"}:
        return _no_folders(one)
    names = one.words.of_the_rule() if one.condition.alone else one.words
    found, missing = _found_files(one, files, names)
    found = _commented([*_stepping_up(place, one.condition, names), *found], place)
    fallback = one.fallback and _reached(one.fallback, last)
    if fallback is not None and _answers_at_once(fallback, alone=one.condition.alone):
        return found + _answer(one, missing, fallback)  # a single rule covers both steps
    result, flags = _end_of_try_files(one, missing, fallback)
    return _commented(found + rule(one.condition, missing, result, flags, place.pointer), place)


def _found_files(
    one: Rewritten, files: Sequence[str], names: Interpolator
) -> tuple[list[Directive], list[tuple[str, str]]]:
    """Return rewrite rules that serve the first existing item of try_files, and conditions that hold if none exists."""
    source, at = one.place.location, one.place.pointer
    found: list[Directive] = []
    missing: list[tuple[str, str]] = []
    for number, item in enumerate(files):
        field = f"{at}/try_files/{number}"
        subject = one_quote(file_of(one.place, item, source.root or one.root, names, field), field)
        test = "-d" if item.endswith("/") else "-f"
        if item.rstrip("/") != "$uri":
            path = one.words.in_target(item, field)
            found += rule(one.condition, [*missing, (subject, test)], path, "[PT,L]", at)
        missing.append((subject, f"!{test}"))
    return found, missing


def _end_of_try_files(one: Rewritten, missing: list[tuple[str, str]], fallback: Place | None) -> tuple[str, str]:
    """Return result and flags of the rule for the last item of try_files; can append a condition to `missing`."""
    last = one.place.location.try_files[-1]
    if last.startswith("="):
        return "-", f"[R={int(last[1:])},L]"
    field = f"{one.place.pointer}/try_files/{len(one.place.location.try_files) - 1}"
    result, flags = split_fallback(last, one.words, field)
    if one.encodes:
        result, flags = _encoded(result, missing, flags, redirects=False)
    if one.anew and rewrites.is_asked_anew(one.place, fallback, one.root):
        result, flags = rewrites.requests_anew(result, flags)
    return result, flags


def _commented(lines: list[Directive], place: Place) -> list[Directive]:
    """Return the rewrite rules; the first rule gets a comment with the name of the location."""
    comment = f"try_files of location {place.label}".replace("\n", " ")
    return [replace(line, comment=comment) if number == 0 else line for number, line in enumerate(lines)]


def _stepping_up(place: Place, condition: Condition, words: Interpolator) -> list[Directive]:
    """Return rewrite rules that reject a request for which an item of try_files would leave the site's folder."""
    source, found = place.location, list[Directive]()
    for number in range(len(source.try_files)):
        if confinement.of_item(source, number) is Verdict.MAY_CLIMB:
            field = f"{place.pointer}/try_files/{number}"
            tests = [(words.in_target(confinement.try_path(source, number), field), confinement.CLIMBS)]
            found += rule(condition, tests, "-", "[F,L]", place.pointer)
    return found


def line_breaks(source: ServerBlock) -> list[Directive]:
    """Return a rule that rejects paths with line breaks; [] if the server block does not need the rule. In a path such
    as `/..<line break>x`, `.*` captures only `/..`, so the rewritten path could leave the site's folder.
    """
    if not confinement.refuses_line_breaks(source):
        return []
    return [directive("RewriteRule", confinement.LINE_BREAK, "-", "[R=400,L]")]


def beside_alias(conditions: Mapping[Place, Condition]) -> list[Directive]:
    """Return rewrite rules that restrict an alias of `/x` to `/x` and paths below it; `/xy` gets 404."""
    found: list[Directive] = []
    for place, condition in conditions.items():
        if confinement.is_loose(place.location):
            own = exclusive.Expression(condition.own.text + "(?!/|$)")
            found += rule(replace(condition, own=own), [], "-", "[R=404,L]", place.pointer)
    return found


def rest_of(place: Place) -> str:
    """Return a regular expression for the rest of the path after an aliased prefix."""
    return "(?:/.*)?" if confinement.is_loose(place.location) else ".*"


def of_requests_only(rules: Sequence[Directive]) -> list[Directive]:
    """Return the rewrite rules. Those with the flag PT also get the flag NS, so that they do not run for subrequests.

    mod_dir looks for index files with subrequests, and a folder without index files must not count as a missing path.
    """
    return [
        replace(line, args=(*line.args[:-1], str(line.args[-1]).replace("[PT,", "[PT,NS,")))
        if line.name == "RewriteRule"
        else line
        for line in rules
    ]


def _reached(fallback: Place, last: str) -> Place:
    """Return the location `fallback`, with `$uri` in its fixed response replaced by the path of `last`."""
    path = without_args(last).partition("?")[0]
    said = re.sub(r"\$(?:uri\b|\{uri\})", lambda _: path, fallback.location.return_value)
    return replace(fallback, location=replace(fallback.location, return_value=said))


def _answers_at_once(fallback: Place, *, alone: bool) -> bool:
    """Return whether one rewrite rule can send the fixed response of a try_files fallback.

    `alone`: the rules of the virtual host run only once, so the rules of the fallback location would not run.
    """
    code = fallback.location.return_code or 0
    if code in handlers.REDIRECTS:
        return fallback.is_fixed
    return alone and fallback.location.handler == "return" and (code >= 300 or not fallback.location.return_value)


def _no_folders(one: Rewritten) -> list[Directive]:
    """Return a rewrite rule that sends 404 for folders, for try_files with the fallback =404; [] if `$uri/` is an item.

    Apache itself sends 404 for missing paths, after access control, so only folders need a rule.
    """
    place = one.place
    if "$uri/" in place.location.try_files:
        return []
    field = f"{place.pointer}/try_files"
    names = one.words.of_the_rule() if one.condition.alone else one.words
    folder = one_quote(file_of(place, "$uri", place.location.root or one.root, names, field), field)
    return _commented(rule(one.condition, [(folder, "-d")], "-", "[R=404,L]", place.pointer), place)


def is_checked_first(source: Location) -> bool:
    """Return whether rules in the section of a location with access control can apply its try_files.

    Rules in a section have neither the location's captures nor the rest of an aliased path.
    """
    texts = " ".join(source.try_files)
    captures = any(f"${name}" in texts or f"${{{name}}}" in texts for name in handlers.captures(source))
    return (
        handlers.asks_access(source)
        and bool(texts)
        and not source.alias
        and not captures
        and not re.search(r"\$\{?\d", texts)
    )


def rules_inside(one: Rewritten) -> list[Directive]:
    """Return the rewrite rules of try_files for the location's own section, where they run after access control."""
    place, every = one.place, Condition(exclusive.Expression("^"), ())
    # httpd follows the result of a section's rule with a new internal request, so no rule needs to ask for one.
    found = _try_files(replace(one, condition=every, anew=False))
    if not found:
        return []
    # Otherwise mod_dir adds a final / to a folder before the redirect is followed.
    folders = [] if "$uri/" in place.location.try_files else [directive("DirectorySlash", "Off")]
    return [*folders, directive("RewriteEngine", "On"), *found]


def without_args(last: str) -> str:
    """Return the last item of try_files without a tail such as `?$args`, which keeps the original query."""
    for tail in ("$is_args$args", "?$args", "?$query_string"):
        last = last.removesuffix(tail)
    return last


def split_fallback(last: str, words: Interpolator, field: str) -> tuple[str, str]:
    """Return result and flags of the rewrite rule for `last`, the fallback of try_files.

    A rewrite rule keeps the query by itself, so `?$args` and `$is_args$args` are dropped. For a fallback without any
    query, the flag QSD removes the query of the request.
    """
    if (path := without_args(last)) != last:
        return words.in_target(path, field), "[PT,L]"
    discard = "" if "?" in last else "QSD,"
    return words.in_target(last, field), f"[PT,{discard}L]"


def with_rest(place: Place, condition: Condition) -> Condition:
    """Return the condition; for a prefix with an alias, group 1 of its expression captures the path after it."""
    if not (place.location.alias and place.is_prefix):
        return condition
    own = exclusive.Expression(f"{condition.own.text}({rest_of(place)})$")
    return replace(condition, own=own)


def file_of(place: Place, item: str, root: str, words: Interpolator, field: str) -> str:
    """Return the file path of one item of try_files, in the notation of rewrite rules."""
    alias = place.location.alias
    if alias and place.is_prefix:
        rest = item.removeprefix("$uri") if item.startswith("$uri") else None
        if rest is not None:
            return target(alias) + "$1" + words.in_target(rest.rstrip("/"), field)
        return target(alias.rstrip("/")) + words.in_target(item.rstrip("/"), field)
    if alias:
        return words.in_target(alias, field)
    return target(root.rstrip("/")) + words.in_target(item.rstrip("/"), field)


def missing_slashes(found: Locations) -> list[Directive]:
    """Return redirects that add the missing final / of a proxying prefix, as nginx does before anything else."""
    rules: list[Directive] = []
    for place in (*found.exact, *found.prefixes):
        bare = place.pattern[:-1]
        if place == with_slash(found, bare):
            pattern = rewrite_regex(f"^{exclusive.quote(bare)}$", f"{place.pointer}/pattern")
            url = one_quote(target(place.pattern), f"{place.pointer}/pattern")
            rules.append(directive("RewriteRule", pattern, url, "[R=301,L]"))
    return rules


def challenges_first(spec: SiteSpec) -> list[Directive]:
    """Return the first of all rewrite rules, which leaves paths of ACME challenges unchanged; [] without challenges."""
    return [directive("RewriteRule", challenges.PATHS, "-", "[END]")] if spec.challenge_folder else []


def to_https(port: int, web_server: WebServerSpec) -> list[Directive]:
    host = "%{SERVER_NAME}" if port == 443 else f"%{{SERVER_NAME}}:{port}"
    redirect = directive(
        "RewriteRule", "^", f"https://{host}%{{ENV:{RAW_URI}}}", f"[R=301,NE{raw_uri_flag(web_server)},L]"
    )
    return [directive("RewriteEngine", "On", gap=True), *RAW_URI_RULES, redirect]
