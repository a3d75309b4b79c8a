"""Render the rewrites that need only one mod_rewrite rule each, as an administrator would write them.

After `[PT]` Apache chooses the sections of the new path; after `[P]` Apache sends the new path to an upstream. After
either flag Apache runs no later rule. Apache takes Alias and ProxyPassMatch from the section of the original path. So a
rule with `[PT]` has the same effect as in nginx only if the locations of both paths have no Alias and no
ProxyPassMatch, and the location of the new path needs no rules. `split` finds the rewrites for which one rule suffices,
and rewrites.py renders all others.
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
    """Division of a server block's rewrites into plain ones, for which one mod_rewrite rule each suffices, and general
    ones.

    `places` are the locations with plain rewrites. `general` maps each location with general rewrites to the reason.
    `of_block` is the reason why the server block's own rewrites are general, else "". With such a reason, all rewrites
    are general, and `places` and `general` are empty.
    """

    places: tuple[Place, ...]
    general: Mapping[Place, str]
    of_block: str = ""


def split(source: ServerBlock, found: Locations, index_rules: Collection[Place], *, limits: bool) -> Split:
    """Divide the rewrites of a server block into plain ones (one rule each suffices) and general ones.

    `index_rules`: locations whose index files need rewrite rules. `limits`: whether rewrite rules limit the size of
    request bodies.
    """
    judge = _Judge(source, found, index_rules)
    if why := judge.why_not_block(limits=limits):
        return Split((), {}, why)
    having = [place for place in found.places if place.location.rewrites]
    general = {place: why for place in having if (why := judge.why_not_place(place))}
    targets = [judge.targets(item) for place in general for item in place.location.rewrites]
    for place in having:
        if place not in general and any(places is None or place in places for places in targets):
            general[place] = "another rewrite can redirect to paths of the location"
    return Split(tuple(place for place in having if place not in general), general)


def of_server(source: ServerBlock, at: str, limits: list[Directive], dialect: Dialect) -> list[Directive]:
    """Return one rewrite rule for each rewrite of the server block. The rules `limits`, which limit request bodies,
    come before the first rule that changes the path.
    """
    groups: tuple[list[Directive], list[Directive]] = ([], [])
    for number, item in enumerate(source.rewrites):
        is_inside = bool(groups[1]) or not rewriting.redirects(item)
        groups[is_inside].extend(one_rule(item, f"{at}/rewrites/{number}", _PASSED_ON, dialect))
    before, after = (unless_foreign(lines, dialect) for lines in groups)
    return [*before, *limits, *after]


def of_places(places: Sequence[Place], chosen: Mapping[Place, Condition], dialect: Dialect) -> list[Directive]:
    """Return one rewrite rule for each rewrite of the locations `places`. A condition restricts each rule to its
    location, unless the pattern of the rewrite already matches only paths of the location.
    """
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
    """Return whether the rewrite can match only paths of the location with the given condition; False if Paddock cannot
    tell.
    """
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

    def why_not_block(self, *, limits: bool) -> str:
        """Return why the server block's rewrites need more than one rule each; "" if one rule each suffices."""
        items = self.source.rewrites
        changing = [number for number, item in enumerate(items) if not rewriting.redirects(item)]
        if changing and limits and any(rewriting.redirects(item) for item in items[changing[0] :]):
            return "nginx sends a later redirect before it limits request bodies"
        reasons = (self._why_not_from(items[n]) or self._why_not_final(items[n:]) for n in changing)
        return next(filter(None, reasons), "")

    def why_not_place(self, place: Place) -> str:
        """Return why a location's rewrites need more than one rule each; "" if one rule each suffices."""
        items = place.location.rewrites
        for number, item in enumerate(items):
            if rewriting.redirects(item) or (item.flag == "break" and place.location.handler == "proxy"):
                continue
            if item.flag == "break":
                return "after “break” the location handles the new path itself"
            if files := self._other_files(place):
                return f"the location has {files}"
            if why := self._why_not_final(items[number:]):
                return why
        return ""

    def targets(self, item: Rewrite) -> list[Place | None] | None:
        """Return the locations that can handle the new path of a rewrite: [] for a redirect, None if Paddock cannot
        tell.

        An element None of the list stands for the server block itself.
        """
        if rewriting.redirects(item):
            return []
        fixed, variable, _ = item.replacement.partition("?")[0].partition("$")
        return self._beginning_with(fixed) if variable else self._handling(fixed)

    def _why_not_from(self, item: Rewrite) -> str:
        """Return why a rewrite of the server block needs more than one rule because of its original path; "" if one
        rule suffices.

        The reason is that the original path can belong to a location with an upstream or another folder.
        """
        start = _start(item.pattern)
        places = [place for place in self._beginning_with(start) if place is not None]
        if _stays_in_segment(item.pattern):
            places = [place for place in places if place.is_regex or "/" not in place.pattern[len(start) :]]
        reasons = (
            f"the original path can belong to a location with {why}" for why in map(self._other_files, places) if why
        )
        return next(reasons, "")

    def _why_not_final(self, items: Sequence[Rewrite]) -> str:
        """Return why the first rewrite in `items` needs more than one rule; "" if one rule suffices.

        The reason is a location's own limit for request bodies, a later rewrite in `items`, or the location of the new
        path.
        """
        item, *later = items
        if any(location.client_max_body_mb is not None for location in self.source.locations):
            return "a location has its own limit for request bodies"
        if not item.flag and any(_may_match(item, other) for other in later):
            return "a later rewrite can match the new path"
        places = self.targets(item)
        if places is None:
            return "the location of the new path is not known in advance"
        needs = (self._needs(place, item) for place in places if place is not None)
        return next((f"the new path can belong to a location with {need}" for need in needs if need), "")

    def _other_files(self, place: Place) -> str:
        """Return "an upstream" or "another folder" if the location does not serve files of the server block's folder;
        otherwise "".
        """
        location = place.location
        if location.handler == "proxy":
            return "an upstream"
        return "another folder" if location.alias or location.root not in ("", self.source.root) else ""

    def _needs(self, place: Place, item: Rewrite) -> str:
        """Return the setting of the location `place` because of which the rewrite `item` needs more than one rule if
        its new path belongs to `place`; "" if one rule suffices.
        """
        location = place.location
        if location.handler == "return":
            return "a fixed response"
        if location.rewrites:
            return "rewrites"
        if place in self.index_rules:
            return "index files of another location"
        return self._other_files(place) or ("try_files" if location.try_files and not _only_looks(place, item) else "")

    def _handling(self, path: str) -> list[Place | None] | None:
        try:
            choice = choose(self.found, path)
        except NotExpressible:  # only PCRE understands the expression
            return None
        return None if choice.slash else [choice.place]

    def _beginning_with(self, start: str) -> list[Place | None]:
        """Return the locations that can handle a path that begins with `start`; None stands for the server block
        itself.
        """
        longest = next((place for place in self.found.prefixes if start.startswith(place.pattern)), None)
        longer = [place for place in self.found.prefixes if place != longest and place.pattern.startswith(start)]
        exact = [place for place in self.found.exact if place.pattern.startswith(start)]
        prefixes = [longest, *longer]
        skips = all(place is not None and place.location.match == "^~" for place in prefixes)
        regexes = () if skips else (place for place in self.found.regexes if _may_begin(place, start))
        return [*prefixes, *exact, *regexes]


def _only_looks(place: Place, item: Rewrite) -> bool:
    """Return whether the try_files of a location has the same effect as Apache without try_files: 404 for missing
    files.

    `$uri =404` also sends 404 for folders. So `$uri =404` has the same effect only if the rewrite `item` leads to the
    location by a constant path of a PHP script.
    """
    *files, last = place.location.try_files
    if last != "=404":
        return False
    runs_itself = place.location.handler == "php" and not place.location.split_path_info
    is_script = runs_itself and "$" not in item.replacement.partition("?")[0]
    return files == ["$uri", "$uri/"] or (files == ["$uri"] and is_script)


def _may_match(item: Rewrite, other: Rewrite) -> bool:
    """Return whether the rewrite `other` can match the path to which the rewrite `item` leads; True if Paddock cannot
    tell.
    """
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
    """Return the literal text with which every match of a regular expression begins; "" if there is none, or if the
    expression is not anchored.
    """
    literal = _LITERAL.match(pattern)
    if literal is None or not exclusive.Expression(pattern).is_anchored:
        return ""
    text = _unescaped(literal[1])
    return text[:-1] if literal[2] in ("?", "*", "{") else text


def _stays_in_segment(pattern: str) -> bool:
    """Return whether every path that the regular expression matches has no slash after the literal text at the start of
    the expression.
    """
    literal = _LITERAL.match(pattern)
    return literal is not None and bool(_start(pattern)) and bool(_ONE_SEGMENT.fullmatch(pattern, literal.end(1)))


def _unescaped(literal: str) -> str:
    return literal.replace("\\", "")
