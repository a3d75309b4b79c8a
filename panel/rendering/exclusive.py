"""Express the choice of a location as mutually exclusive conditions, for servers that merge or reorder sections.

A place (a location of the block) handles a request exactly if its own expression matches and none of its `but_not`
does. Every expression is searched for in the decoded, normalized path, as nginx does with PCRE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from panel.rendering.errors import NotExpressible
from panel.rendering.locations import Locations, Place
from panel.rendering.pcre import search

_GROUP = re.compile(r"\(\?(?:P?<[A-Za-z_]\w*>|'[A-Za-z_]\w*')|\((?![?*])")


@dataclass(frozen=True)
class Expression:
    """PCRE regular expression for paths; `nocase` ignores case."""

    text: str
    nocase: bool = False

    @property
    def is_anchored(self) -> bool:
        """True if every alternative begins with ^."""
        return self.text.startswith("^") and "|" not in _outside_groups(self.text)

    def inline(self) -> str:
        """Return the regular expression as text that includes its case flag."""
        return f"(?i:{self.text})" if self.nocase else self.text


@dataclass(frozen=True)
class Condition:
    """Condition under which a location handles a request: the path matches `own`, and no expression of `but_not`.

    `alone`: a rewrite rule must express the condition by its pattern alone, because RewriteCond would see another path
    than the pattern.
    """

    own: Expression
    but_not: tuple[Expression, ...]
    alone: bool = False

    def as_one(self) -> str:
        """Return the condition as one regular expression, for sections that accept only one."""
        if not self.but_not:
            return self.own.inline()
        lookaheads = "".join(f"(?!{_from_start(item)})" for item in self.but_not)
        return f"^{lookaheads}{_from_start(self.own)}"

    def as_whole(self) -> str:
        """Return the condition as one regular expression for the whole path, with the captures of the location's own
        expression.
        """
        lookaheads = "".join(f"(?!{_found(item)})" for item in self.but_not)
        return f"^{lookaheads}(?={_found(self.own)})(?s:.*)$"

    def as_pattern(self) -> str:
        """Return the condition as one regular expression that matches the same text as `own`, with the captures of
        `own`.
        """
        return f"^{''.join(f'(?!{_anywhere(item)})' for item in self.but_not)}{_anywhere(self.own)}"

    def to_the_end(self) -> str:
        """Return the condition as one regular expression that matches up to the end of the path."""
        found = self.as_pattern()
        return found if self.own.is_anchored and found.endswith("$") and not self.own.nocase else f"{found}(?s:.*)$"

    def below_root(self) -> str:
        """Return the condition as one regular expression that requires a leading /, for a section that also sees other
        request targets.

        A target such as `http://other/x` would otherwise become part of a proxied URL.
        """
        start = _from_start(self.own)
        if start.startswith("/"):
            return self.as_one()
        return f"^(?=/){''.join(f'(?!{_from_start(item)})' for item in self.but_not)}{start}"


def conditions(locations: Locations) -> dict[Place, Condition]:
    """Map each location to the condition under which it handles a request. Raise NotExpressible for a back-reference,
    which cannot be combined with other regular expressions.
    """
    if len(locations.regexes) > 1:
        for place in locations.regexes:
            if re.search(r"\\[1-9]|\\g\{?-?\d|\(\?[&R\d]", place.pattern):
                raise NotExpressible(
                    f"{place.pointer}/pattern",
                    "the expression contains a back-reference, which the web server cannot combine with the "
                    "expressions of other locations; remove the back-reference",
                )
    return {place: _condition(place, locations) for place in locations.places}


def _condition(place: Place, locations: Locations) -> Condition:
    if place.location.match == "=":
        return Condition(Expression(f"^{quote(place.pattern)}$"), ())
    exact = [item for item in locations.exact if _may_match(place, item.pattern)]
    but_not = [Expression(f"^{_any_of([item.pattern for item in exact])}$")] if exact else []
    if place.is_regex:
        but_not += [_region(item, locations) for item in locations.prefixes if item.location.match == "^~"]
        but_not += [_expression(item) for item in locations.regexes[: locations.regexes.index(place)]]
        return Condition(Expression(place.pattern, place.location.match == "~*"), tuple(but_not))
    longer = _longer(place, locations)
    if place.location.match == "":
        but_not += [_expression(item) for item in locations.regexes]
    own = f"^{quote(place.pattern)}"
    if longer:
        own += f"(?!{'|'.join(quote(item) for item in longer)})"
    return Condition(Expression(own), tuple(but_not))


def _longer(place: Place, locations: Locations) -> list[str]:
    """Return the ends of all prefixes that are longer than the prefix of `place` and begin with it: for `/a` and `/a/b`
    the end `/b`.

    An end that begins with another end of the result is left out.
    """
    rests = [
        item.pattern[len(place.pattern) :]
        for item in reversed(locations.prefixes)
        if item != place and item.pattern.startswith(place.pattern)
    ]
    kept: list[str] = []
    for rest in rests:
        if not any(rest.startswith(other) for other in kept):
            kept.append(rest)
    return kept


def _region(place: Place, locations: Locations) -> Expression:
    """Return a regular expression for the paths of a `^~` prefix: those for which no longer prefix matches."""
    longer = _longer(place, locations)
    tail = f"(?!{'|'.join(quote(item) for item in longer)})" if longer else ""
    return Expression(f"^{quote(place.pattern)}{tail}")


def _expression(place: Place) -> Expression:
    return Expression(uncaptured(place.pattern), place.location.match == "~*")


def _may_match(place: Place, path: str) -> bool:
    if not place.is_regex:
        return path.startswith(place.pattern)
    try:
        return search(place.pattern, path, nocase=place.location.match == "~*") is not None
    except NotExpressible:
        return True  # cannot be decided here, so exclude it


def _any_of(paths: list[str]) -> str:
    quoted = [quote(path) for path in paths]
    return quoted[0] if len(quoted) == 1 else f"(?:{'|'.join(quoted)})"


def quote(text: str) -> str:
    """Return a regular expression that matches exactly `text`."""
    return re.sub(r"[.^$*+?()\[\]{}|\\]", r"\\\g<0>", text)


def _from_start(expression: Expression) -> str:
    text = expression.inline()
    if expression.is_anchored and not expression.nocase:
        return text[1:]
    inner = f"(?:{text})" if "|" in _outside_groups(text) else text
    return inner if expression.is_anchored else f".*{inner}"


def _anywhere(expression: Expression) -> str:
    """Return a regular expression that matches from the start of the path to the end of the first match of the given
    `expression`.
    """
    text = expression.text[1:]
    return text if expression.is_anchored and not expression.nocase else _found(expression)


def _found(expression: Expression) -> str:
    """Return a regular expression that matches from the current position in the path to the end of the next match of
    `expression`.
    """
    return f"(?s:.*?)(?:{expression.inline()})"


def _outside_groups(text: str) -> str:
    """Return the top-level text of a regular expression, without escapes, classes and groups."""
    bare = re.sub(r"\\.", "", text, flags=re.S)
    bare = re.sub(r"\[\^?\]?[^\]]*\]", "", bare)
    while (smaller := re.sub(r"\([^()]*\)", "", bare)) != bare:
        bare = smaller
    return bare


def groups(text: str) -> list[tuple[int, int, str]]:
    """Return (start, end of the opening such as `(?<name>`, name or "") of each capturing group in a regular
    expression, in order.
    """
    found: list[tuple[int, int, str]] = []
    position, inside = 0, False
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        if inside:
            inside = text[position] != "]"
        elif text[position] == "[":
            inside = True
            position += text[position + 1 : position + 3] in ("^]",) or text[position + 1 : position + 2] == "]"
        elif opening := _GROUP.match(text, position):
            found.append((position, opening.end(), opening[0].strip("(?P<>'")))
        position += 1
    return found


def uncaptured(text: str) -> str:
    """Return the regular expression with its groups made non-capturing, so that another expression can contain it."""
    for start, end, _ in reversed(groups(text)):
        text = f"{text[:start]}(?:{text[end:]}"
    return text


def named(text: str, names: dict[int, str]) -> str:
    """Return the regular expression with its n-th group named `names[n]`, counted from 1; other groups do
    not capture.
    """
    found = groups(text)
    for number in range(len(found), 0, -1):
        start, end, _ = found[number - 1]
        opening = f"(?<{names[number]}>" if number in names else "(?:"
        text = f"{text[:start]}{opening}{text[end:]}"
    return text


def number_of(text: str, capture: str) -> int | None:
    """Return the number of the group that `$capture` refers to by number or name; None if there is no such group."""
    found = groups(text)
    if capture.isdigit():
        return int(capture) if 0 < int(capture) <= len(found) else None
    return next((n for n, (_, _, name) in enumerate(found, 1) if name == capture), None)
