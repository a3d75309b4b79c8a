"""Find regular expressions that match more than intended, or take exponential time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from re import _constants, _parser  # type: ignore[attr-defined] # Python's own reading of an expression
from typing import Any

from panel.rendering.lint import pumping
from panel.rendering.lint.finding import Finding, setting
from panel.rendering.spec import Location, ServerBlock

_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
# `\.php` that is not anchored at its end.
_OPEN_PHP = re.compile(r"\\\.(?:php\d?|ph\(\?:p\|ar\|tml\)|ph\(p\|ar\|tml\)|\(php\|phtml\))\Z")


def of_block(block: ServerBlock, where: str) -> Iterator[Finding]:
    names = [name[1:] for name in block.names if name.startswith("~")]
    yield from _slow([*names, *(item.pattern for item in block.rewrites)], where)


def of_location(location: Location, where: str) -> Iterator[Finding]:
    is_expression = location.match in ("~", "~*")
    patterns = [location.pattern] if is_expression else []
    yield from _slow([*patterns, *(item.pattern for item in location.rewrites)], where)
    if is_expression and location.handler == "php" and _OPEN_PHP.search(location.pattern):
        yield Finding(
            "php-unanchored",
            where,
            f"The location {location.pattern} also passes files such as picture.php.jpg to PHP.",
            "The regular expression does not match the end of the file name. Anyone who can upload a picture can "
            "run code if the PHP pool accepts other suffixes than .php (security.limit_extensions).",
            f"Match the end of the name or a path: {location.pattern}(?:/|$)",
            setting(where, pattern=f"{location.pattern}(?:/|$)"),
        )


def _slow(patterns: Iterable[str], where: str) -> Iterator[Finding]:
    for pattern in patterns:
        if explodes(pattern):
            what = f"The regular expression {pattern} repeats a group that itself contains a repetition."
        elif path := pumping.slow_text(pattern):
            what = f"The web server needs too long to match the regular expression {pattern} with paths such as {path}."
        else:
            continue
        yield Finding(
            "slow-expression",
            where,
            what,
            "Some paths that do not match take exponential time, so a few requests can block all workers. Repeat "
            "only once (a+ instead of (a+)+), and let alternatives begin differently.",
        )


def explodes(pattern: str) -> bool:
    """Return whether a repeated group contains only repeated or optional parts.

    False for expressions that Python cannot parse; the server's own configuration test covers them.
    """
    try:
        tree = _parser.parse(re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern))
    except (re.error, OverflowError, RecursionError):
        return False
    return _any(tree)


def _any(items: Iterable[tuple[Any, Any]]) -> bool:
    for kind, value in items:
        if kind in _REPEATS and value[1] is _constants.MAXREPEAT and _is_loose(value[2]):
            return True
        if any(_any(inner) for inner in _inside(value)):
            return True
    return False


def _inside(value: Any) -> Iterator[Any]:
    """Yield the nested expressions within one part of a parsed regular expression."""
    if isinstance(value, _parser.SubPattern):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _inside(item)


def _is_loose(items: Iterable[tuple[Any, Any]]) -> bool:
    repeated = False
    for kind, value in items:
        if kind is _constants.SUBPATTERN:
            if not _is_loose(value[-1]):
                return False
            repeated = True
        elif kind in _REPEATS and value[1] is _constants.MAXREPEAT:
            repeated = True
        elif kind not in _REPEATS or value[0] > 0:
            return False
    return repeated
