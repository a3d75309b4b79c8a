"""Render a site's rewrites as mod_rewrite rules, for Apache and for OpenLiteSpeed, which reads the same language.

At virtual-host level a rule's pattern sees the path after earlier rules, but sections and `%{REQUEST_URI}` keep the
original path. So these rules only compute and record the new path. A section without access control then redirects
internally to the new path, so that the location of the new path handles the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from panel.rendering import confinement, exclusive, rewriting, variables
from panel.rendering.apache import encoding
from panel.rendering.apache.quoting import Interpolator, rewrite_regex
from panel.rendering.confinement import Verdict
from panel.rendering.exclusive import Condition
from panel.rendering.locations import Place
from panel.rendering.spec import Location, Rewrite, ServerBlock
from panel.rendering.tree import Directive, Node, block, directive

AT, AGAIN, HOPPED, MOVED, ROUND, TO = (f"PADDOCK_{word}" for word in ("AT", "AGAIN", "HOPPED", "MOVED", "ROUND", "TO"))
# A path that exists on no disk. httpd would map an existing path such as /etc/passwd or / to that file.
NOWHERE = "/.paddock-moved"
# httpd would respond with 403 to a space in a query; BCTLS encodes spaces, BNP as %20.
QUERY_ENCODING = (f"B={encoding.REWRITES}", "BCTLS", "BNP")
ANEW = f"N={rewriting.ROUNDS}"


@dataclass(frozen=True)
class Dialect:
    """Differences between the rewrite rules of Apache and those of OpenLiteSpeed.

    `proxied(place)` returns the URL of the upstream to which the location `place` proxies; None if the location does
    not proxy. After a rewrite with the flag `break`, the request goes to this URL with the new path. `foreign`:
    conditions that detect the server's internal requests for index files and error pages, which are not rewritten.
    `anew`: the flag that restarts the rules. `encoding`: the rewrite flags that encode captures in a query.
    """

    server_name: str
    proxied: Callable[[Place], str | None]
    foreign: tuple[tuple[str, str], ...] = (("%{ENV:REDIRECT_STATUS}", "!^$"), ("%{IS_SUBREQ}", "=true"))
    anew: str = ANEW
    encoding: tuple[str, ...] = ()


def are_used(source: ServerBlock) -> bool:
    return bool(source.rewrites) or any(location.rewrites for location in source.locations)


def rules(
    source: ServerBlock, chosen: Mapping[Place, Condition], slashes: list[Directive], at: str, dialect: Dialect
) -> list[Directive]:
    """Return the rewrite rules of the server block, then those of its locations.

    The rules of the locations run again until the path stays unchanged. `slashes`: redirects that add a final /; they
    come before the rules of the locations.
    """
    inside = _inside(chosen, dialect) if any(place.location.rewrites for place in chosen) else []
    moves = [f"E={MOVED}:1", f"E={HOPPED}:1"]
    own = [line for item in _block_list(source, at, dialect, moves) for line in item]
    head = [*_skip([(f"%{{ENV:{ROUND}}}", "=1")], len(_counted(own)))] if inside and own else []
    begun = [directive("RewriteRule", "^", "-", f"[E={ROUND}:1]")] if inside else []
    body = [*head, *own, *begun, *slashes, *inside]
    return unless_foreign(body, dialect)


def unless_foreign(lines: list[Directive], dialect: Dialect) -> list[Directive]:
    """Return the rewrite rules `lines`, preceded by a rule that skips them for the server's internal requests, such as
    those for error pages.
    """
    if not dialect.foreign or not lines:
        return lines
    first, *rest = _skip(dialect.foreign, len(_counted(lines)))
    return [replace(first, comment="The server's own requests, as for error pages, keep their path"), *rest, *lines]


def _counted(lines: list[Directive]) -> list[Directive]:
    return [line for line in lines if line.name == "RewriteRule"]


def _skip(tests: Sequence[tuple[str, str]], count: int) -> list[Directive]:
    """Return a rewrite rule that skips the next `count` rules if one of the conditions `tests` holds."""
    found = [directive("RewriteCond", *test, "[OR]") for test in tests[:-1]]
    found.append(directive("RewriteCond", *tests[-1]))
    return [*found, directive("RewriteRule", "^", "-", f"[S={count}]")]


def _block_list(source: ServerBlock, at: str, dialect: Dialect, flags: list[str]) -> list[list[Directive]]:
    """Return one list of rewrite rules for each rewrite of the server block. Each rule has the given `flags`."""
    found: list[list[Directive]] = []
    for number, item in enumerate(source.rewrites):
        rest = len(source.rewrites) - number - 1
        skips = [f"S={rest}"] if item.flag in ("last", "break") and rest else []
        found.append(one_rule(item, f"{at}/rewrites/{number}", [*flags, *skips], dialect))
    return found


def one_rule(item: Rewrite, at: str, flags: list[str], dialect: Dialect, url: str = "") -> list[Directive]:
    """Return the rewrite rule for a rewrite. If the new path could be outside of the site's folder, a condition before
    the rule tests the new path, and the rule does not apply to new paths outside.

    `url`: URL of the upstream that receives the new path; "" without an upstream.
    """
    rewriting.check(item, at)
    pattern = item.pattern
    if "$uri" in item.replacement or "${uri}" in item.replacement:  # $0 is then the whole path
        pattern = f"^(?=(?s:.*?)(?:{pattern}))(?s:.*)$"
    names = variables.captures_of(item.pattern)
    captures = {str(number): str(number) for number in range(1, len(exclusive.groups(item.pattern)) + 1)}
    captures |= {name: str(exclusive.number_of(item.pattern, name)) for name in names}
    words = Interpolator(dialect.server_name, {**captures, "uri": "0"}, names)
    field, text = f"{at}/replacement", item.replacement
    drops = text.endswith("?")
    text = text.removesuffix("?") if drops and "?" in text[:-1] else text
    if status := rewriting.redirects(item):
        flags = [f"R={status}", "L"]
    if "?" in text and not drops:
        flags = ["QSA", *flags]
    path, _, query = text.partition("?")
    if not status and "$" in query and "$" not in path:
        flags = [*dialect.encoding, *flags]
    result = url + words.in_target(text, field)
    rule = directive("RewriteRule", rewrite_regex(pattern, f"{at}/pattern"), result, f"[{','.join(flags)}]")
    if url or confinement.of_rewrite(item) is not Verdict.MAY_CLIMB:
        return [rule]
    made = words.in_target(path, field)
    return [directive("RewriteCond", made, f"!{confinement.CLIMBS}"), rule]


def _inside(chosen: Mapping[Place, Condition], dialect: Dialect) -> list[Directive]:
    """Return rewrite rules that find the location of the request and apply the rewrites of this location.

    After a rewrite with the flag `last`, or without a flag, the rules restart.
    """
    places = [place for place in chosen if place.location.rewrites]
    notes = [directive("RewriteRule", "^", "-", f"[E={AT}:-]")]
    for place in places:
        pattern = rewrite_regex(chosen[place].as_whole(), f"{place.pointer}/pattern")
        notes.append(directive("RewriteRule", pattern, "-", f"[E={AT}:{place.number}]"))
    groups = [_group(place, dialect) for place in places]
    found: list[Directive] = []
    for place, group in zip(places, groups, strict=True):
        found += [*_skip([(f"%{{ENV:{AT}}}", f"!={place.number}")], len(_counted(group))), *group]
    return [*notes, *found]


def _group(place: Place, dialect: Dialect) -> list[Directive]:
    found: list[Directive] = []
    goes_on = any(not rewriting.ends(item) for item in place.location.rewrites)
    lists = [_of_place(place, number, item, dialect) for number, item in enumerate(place.location.rewrites)]
    tail = [
        directive("RewriteCond", f"%{{ENV:{AGAIN}}}", "=1"),
        directive("RewriteRule", "^", "-", f"[E={AGAIN}:0,E={HOPPED}:1,{dialect.anew}]"),
    ]
    for number, lines in enumerate(lists):
        rest = sum(len(_counted(item)) for item in lists[number + 1 :]) + goes_on
        found += [_skipping(line, rest) for line in lines]
    return [*found, *(tail if goes_on else [])]


def _skipping(line: Directive, rest: int) -> Directive:
    """Return a rewrite rule whose placeholder flag S=REST is replaced by S= and the number `rest`, so that the rule
    skips the next `rest` rules. For 0 the flag is removed.
    """
    words = [word.replace("S=REST", f"S={rest}") if rest else word.replace(",S=REST", "") for word in line.args]
    return directive(line.name, *words)


def _of_place(place: Place, number: int, item: Rewrite, dialect: Dialect) -> list[Directive]:
    at = f"{place.pointer}/rewrites/{number}"
    if item.flag == "last":
        return one_rule(item, at, [f"E={MOVED}:1", f"E={AGAIN}:0", f"E={HOPPED}:1", dialect.anew], dialect)
    if item.flag != "break":
        return one_rule(item, at, [f"E={MOVED}:1", f"E={AGAIN}:1"], dialect)
    stays = one_rule(item, at, [f"E={MOVED}:1", f"E={AGAIN}:0", "S=REST"], dialect)
    if (url := dialect.proxied(place)) is None:
        return stays
    own = [directive("RewriteCond", f"%{{ENV:{HOPPED}}}", "!=1"), *one_rule(item, at, ["P"], dialect, url)]
    return [*own, *stays]


def ends() -> list[Directive]:
    """Return the last rewrite rules, which record a path that rewrites have changed, so that a section can request the
    path internally.
    """
    return [
        directive("RewriteCond", f"%{{ENV:{MOVED}}}", "=1"),
        directive("RewriteRule", "^(?s:.*)$", NOWHERE, f"[E={TO}:$0,L]"),
    ]


def is_asked_anew(place: Place, fallback: Place | None, root: str) -> bool:
    """Return whether httpd must make a new internal request for the fallback of try_files in the location `place`.

    Without a new request, httpd applies ProxyPass and Alias to the original path. `root` is the server block's folder:
    a fallback that no location handles is a file in that folder.
    """
    own, other = place.location, fallback.location if fallback else Location("", "/", "static")
    if other.handler == "proxy":
        return True
    is_elsewhere = own.alias or other.alias or (own.root or root) != (other.root or root)
    return other.handler in ("static", "php") and bool(is_elsewhere)


def requests_anew(result: str, flags: str) -> tuple[str, str]:
    """Return (result, flags) of a rewrite rule, changed so that the rule only records its new path. The section of
    `asked_anew` then requests the recorded path internally.

    Both are unchanged if the path has letters that a flag cannot contain.
    """
    path, mark, query = result.partition("?")
    if not re.fullmatch(r"[A-Za-z0-9/._-]+", path):
        return result, flags
    return NOWHERE + mark + query, flags.replace("PT,", f"E={TO}:{path},", 1)


def asked_anew(*, encodes: bool) -> Node:
    """Return an `<If>` section that redirects internally to the path that a rewrite rule has recorded. `%` and `?` in
    this path are literal.

    `encodes`: the server supports the rewrite flag BCTLS. This flag encodes spaces, which a proxied path must not
    contain.
    """
    return block(
        "If",
        f"-n reqenv('{TO}')",
        body=[
            directive("AuthType", "None"),
            directive("Require", "all", "granted"),
            directive("AllowMethods", "reset"),
            directive("DirectorySlash", "Off"),  # otherwise redirects first if the path is a folder
            directive("RewriteEngine", "On"),
            directive("RewriteCond", f"%{{ENV:{TO}}}", "^(?s:(.*))$"),
            asks_for_last(encodes=encodes),
        ],
    )


def asks_for_last(*, encodes: bool) -> Directive:
    """Return a rewrite rule, for a section, that redirects internally to the text captured by the condition before the
    rule.
    """
    flags = f"B={encoding.REDIRECTS}"
    return directive("RewriteRule", "^", "%1", f"[{flags},BCTLS,BNP]" if encodes else f"[{flags}]")
