"""Rewrites that one rule each expresses exactly, as an administrator would write them.

`[PT]` passes the new path on to the choice of sections, `[P]` to an upstream. Later rules do not run, and Alias and
ProxyPass go by the original path. So a rule with `[PT]` is exact only if neither the location of the original path nor
that of the new path depends on them; `split` finds these rewrites, and rewrites.py renders the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from panel.rendering import exclusive, rewriting
from panel.rendering.apache.quoting import rewrite_regex
from panel.rendering.apache.rewrites import Dialect, one_rule, unless_foreign
from panel.rendering.choice import choose
from panel.rendering.errors import NotExpressible
from panel.rendering.exclusive import Condition
from panel.rendering.locations import Locations, Place
from panel.rendering.pcre import search
from panel.rendering.spec import Rewrite, ServerBlock
from panel.rendering.tree import Directive, directive

_PASSED_ON = ["PT", "NS", "L"]  # NS: mod_dir looks for index files by subrequests, which are not rewritten
# The rest of an expression after its literal start that matches no further slash.
_ONE_SEGMENT = re.compile(r"(?:\[\^/\]|\[(?:[a-z]-[a-z]|[A-Z]-[A-Z]|0-9|[A-Za-z0-9_])+-?\]|\\[dw.]|[\w()?+*-])*\$")
_LITERAL = re.compile(r"\^((?:[A-Za-z0-9_/-]|\\[.-])*)(.?)")


@dataclass(frozen=True)
class Split:
    """Rewrites with a plain form: those of the block, if `block` is true, and those of `places`. `general`: the other
    locations with rewrites.
    """

    block: bool
    places: tuple[Place, ...]
    general: tuple[Place, ...]


def split(source: ServerBlock, found: Locations, index_rules: Collection[Place], *, limits: bool) -> Split:
    """Divide the rewrites of a server block.

    `index_rules`: locations whose index files need rules. `limits`: rules limit the size of request bodies.
    """
    judge = _Judge(source, found, index_rules)
    having = [place for place in found.places if place.location.rewrites]
    if not judge.block_is_plain(limits=limits):
        return Split(False, (), tuple(having))
    plain = [place for place in having if judge.place_is_plain(place)]
    targets = [judge.targets(item) for place in having if place not in plain for item in place.location.rewrites]
    plain = [place for place in plain if not any(places is None or place in places for places in targets)]
    return Split(True, tuple(plain), tuple(place for place in having if place not in plain))


def of_block(source: ServerBlock, at: str, limits: list[Directive], dialect: Dialect) -> list[Directive]:
    """Rules of the server block's rewrites. `limits` come before the first that changes the path."""
    groups: tuple[list[Directive], list[Directive]] = ([], [])
    for number, item in enumerate(source.rewrites):
        is_inside = bool(groups[1]) or not rewriting.redirects(item)
        groups[is_inside].extend(one_rule(item, f"{at}/rewrites/{number}", _PASSED_ON, dialect))
    before, after = (unless_foreign(lines, dialect) for lines in groups)
    return [*before, *limits, *after]


def of_places(places: Sequence[Place], chosen: Mapping[Place, Condition], dialect: Dialect) -> list[Directive]:
    """Rules of locations' rewrites; each has a condition unless its pattern implies the location."""
    found: list[Directive] = []
    for place in places:
        pattern = rewrite_regex(chosen[place].as_one(), f"{place.pointer}/pattern")
        here = directive("RewriteCond", "%{REQUEST_URI}", pattern)
        for number, item in enumerate(place.location.rewrites):
            at = f"{place.pointer}/rewrites/{number}"
            url = (dialect.proxied(place) or "") if item.flag == "break" else ""
            rule = one_rule(item, at, ["P"] if url else _PASSED_ON, dialect, url)
            found += rule if _implies(item, chosen[place]) else [here, *rule]
    return unless_foreign(found, dialect)


def _implies(item: Rewrite, condition: Condition) -> bool:
    """Return whether every path that the rewrite matches belongs to the location."""
    own = condition.own
    if condition.but_not or own.nocase or not exclusive.Expression(item.pattern).is_anchored:
        return False
    fixed, literal = _start(item.pattern), _LITERAL.fullmatch(own.text)
    return literal is not None and not literal[2] and fixed.startswith(_unescaped(literal[1]))


@dataclass(frozen=True)
class _Judge:
    source: ServerBlock
    found: Locations
    index_rules: Collection[Place]

    def block_is_plain(self, *, limits: bool) -> bool:
        items = self.source.rewrites
        changing = [number for number, item in enumerate(items) if not rewriting.redirects(item)]
        if not changing:
            return True
        if limits and any(rewriting.redirects(item) for item in items[changing[0] :]):
            return False  # nginx limits bodies after all rewrites of the server block
        return all(self._starts_plainly(items[n]) and self._is_passed_on(items[n:]) for n in changing)

    def place_is_plain(self, place: Place) -> bool:
        items = place.location.rewrites
        for number, item in enumerate(items):
            if rewriting.redirects(item) or (item.flag == "break" and place.location.handler == "proxy"):
                continue
            if item.flag == "break" or not self._has_own_files(place) or not self._is_passed_on(items[number:]):
                return False
        return True

    def targets(self, item: Rewrite) -> list[Place | None] | None:
        """Locations that may handle the new path; None in the list is the server block. None if unknown."""
        if rewriting.redirects(item):
            return []
        fixed, variable, _ = item.replacement.partition("?")[0].partition("$")
        return self._beginning_with(fixed) if variable else self._handling(fixed)

    def _starts_plainly(self, item: Rewrite) -> bool:
        """Return whether no location of an original path has an upstream or a folder of its own."""
        start = _start(item.pattern)
        places = [place for place in self._beginning_with(start) if place is not None]
        if _stays_in_segment(item.pattern):
            places = [place for place in places if place.is_regex or "/" not in place.pattern[len(start) :]]
        return all(map(self._has_own_files, places))

    def _is_passed_on(self, items: Sequence[Rewrite]) -> bool:
        """Return whether the first rewrite is final and all locations of its result need no further rules."""
        item, *later = items
        if any(location.client_max_body_mb is not None for location in self.source.locations):
            return False
        if not item.flag and any(_may_match(item, other) for other in later):
            return False
        places = self.targets(item)
        return places is not None and all(place is None or self._is_settled(place, item) for place in places)

    def _has_own_files(self, place: Place) -> bool:
        """Return whether paths of the location map to the server block's folder."""
        location = place.location
        return location.handler != "proxy" and not location.alias and location.root in ("", self.source.root)

    def _is_settled(self, place: Place, item: Rewrite) -> bool:
        """Return whether the location needs no rules for the new path."""
        location = place.location
        if location.handler == "return" or location.rewrites or place in self.index_rules:
            return False
        return self._has_own_files(place) and (not location.try_files or _only_looks(place, item))

    def _handling(self, path: str) -> list[Place | None] | None:
        try:
            choice = choose(self.found, path)
        except NotExpressible:  # only PCRE understands the expression
            return None
        return None if choice.slash else [choice.place]

    def _beginning_with(self, start: str) -> list[Place | None]:
        """Locations that may handle a path with this beginning."""
        longest = next((place for place in self.found.prefixes if start.startswith(place.pattern)), None)
        longer = [place for place in self.found.prefixes if place != longest and place.pattern.startswith(start)]
        exact = [place for place in self.found.exact if place.pattern.startswith(start)]
        prefixes = [longest, *longer]
        skips = all(place is not None and place.location.match == "^~" for place in prefixes)
        regexes = () if skips else (place for place in self.found.regexes if _may_begin(place, start))
        return [*prefixes, *exact, *regexes]


def _only_looks(place: Place, item: Rewrite) -> bool:
    """Return whether try_files of the location adds nothing to Apache's own 404 for missing files.

    `$uri =404` also refuses folders, so the new path must be one script.
    """
    *files, last = place.location.try_files
    if last != "=404":
        return False
    runs_itself = place.location.handler == "php" and not place.location.split_path_info
    is_script = runs_itself and "$" not in item.replacement.partition("?")[0]
    return files == ["$uri", "$uri/"] or (files == ["$uri"] and is_script)


def _may_match(item: Rewrite, other: Rewrite) -> bool:
    """Return whether `other` may match the result of `item`."""
    fixed, variable, _ = item.replacement.partition("?")[0].partition("$")
    if variable:
        return _overlap(fixed, _start(other.pattern))
    try:
        return search(other.pattern, fixed) is not None
    except NotExpressible:
        return True


def _may_begin(place: Place, start: str) -> bool:
    return place.location.match == "~*" or _overlap(start, _start(place.pattern))


def _overlap(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _start(pattern: str) -> str:
    """Text with which every path that matches the expression begins."""
    literal = _LITERAL.match(pattern)
    if literal is None or not exclusive.Expression(pattern).is_anchored:
        return ""
    text = _unescaped(literal[1])
    return text[:-1] if literal[2] in ("?", "*", "{") else text


def _stays_in_segment(pattern: str) -> bool:
    """Return whether paths that the expression matches have no slash after their literal start."""
    literal = _LITERAL.match(pattern)
    return literal is not None and bool(_start(pattern)) and bool(_ONE_SEGMENT.fullmatch(pattern, literal.end(1)))


def _unescaped(literal: str) -> str:
    return literal.replace("\\", "")
