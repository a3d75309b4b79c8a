"""Search for a text that makes a regular expression slow: repeated samples of its parts, then a mismatch.

PCRE2 runs the expression with fewer steps than nginx allows (pcre2_match(3), match limit). So a text that is found is
slow for certain; an expression without such a text may still be slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from re import _constants, _parser  # type: ignore[attr-defined] # Python's own reading of an expression
from typing import Any

from panel.rendering import pcre
from panel.rendering.errors import NotExpressible

STEPS = 100_000  # about 5 ms; a harmless expression needs a few hundred for these texts
_TIMES = 40
_PROBES = 12
_SHOWN = 24
_SAMPLES = 3  # samples per part
_ENDS = ("\x01", "!")  # characters that hardly any expression accepts next
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
_CLASSES = {
    _constants.CATEGORY_DIGIT: "0",
    _constants.CATEGORY_WORD: "a",
    _constants.CATEGORY_SPACE: " ",
    _constants.CATEGORY_NOT_DIGIT: "a",
    _constants.CATEGORY_NOT_WORD: "-",
    _constants.CATEGORY_NOT_SPACE: "a",
}
_USUAL = "a/0-.xZ_ "  # tried if a class excludes characters


@lru_cache(maxsize=512)
def slow_text(pattern: str) -> str:
    """Return the beginning of a text for which `pattern` is too slow; "" if none was found."""
    try:
        tree = _parser.parse(re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern))
        expression = pcre.compiled(pattern)
    except (re.error, OverflowError, RecursionError, NotExpressible):
        return ""
    for before, part in islice(_repeated(list(tree), ""), _PROBES):
        for end in _ENDS:
            text = before + part * _TIMES + end
            try:
                expression.groups(text, STEPS)
            except pcre.TooSlow:
                return text[:_SHOWN]
            except NotExpressible:
                return ""
    return ""


def _repeated(items: list[tuple[Any, Any]], before: str) -> Iterator[tuple[str, str]]:
    """Yield (text that matches everything before a part, text that matches the part once) for each part of a regular
    expression with unlimited repetition.
    """
    for number, (kind, value) in enumerate(items):
        if kind in _REPEATS and value[1] is _constants.MAXREPEAT:
            body = list(value[2])
            yield from ((before, sample) for sample in _samples(body) if sample)
            together = "".join(_samples([item])[0] for item in items[number:] if item[0] in _REPEATS)
            if together:
                yield before, together[: 2 * _SAMPLES]
        for inner in _bodies(kind, value):
            yield from _repeated(inner, before)
        before += _samples([(kind, value)])[0]


def _bodies(kind: Any, value: Any) -> list[list[tuple[Any, Any]]]:
    if kind in _REPEATS:
        return [list(value[2])]
    if kind is _constants.SUBPATTERN:
        return [list(value[-1])]
    return [list(branch) for branch in value[1]] if kind is _constants.BRANCH else []


def _samples(items: list[tuple[Any, Any]]) -> list[str]:
    """Return texts that match a sequence of parts of a regular expression: at least one text, which may be ""."""
    found = [""]
    for kind, value in items:
        found = [text + more for text in found for more in _of_part(kind, value)][:_SAMPLES]
    return found


def _of_part(kind: Any, value: Any) -> list[str]:
    if kind is _constants.LITERAL:
        return [chr(value)]
    if kind is _constants.NOT_LITERAL:
        return [next(item for item in _USUAL if item != chr(value))]
    if kind is _constants.ANY:
        return ["a"]
    if kind is _constants.IN:
        return [_of_class(value)]
    if kind in _REPEATS:
        return [text * max(1, min(int(value[0]), 4)) for text in _samples(list(value[2]))]
    bodies = _bodies(kind, value)
    return [text for body in bodies for text in _samples(body)][:_SAMPLES] or [""]


def _of_class(items: list[tuple[Any, Any]]) -> str:
    if items and items[0][0] is _constants.NEGATE:
        return next((letter for letter in _USUAL if not any(_holds(item, letter) for item in items[1:])), "\x02")
    kind, value = items[0]
    if kind is _constants.RANGE:
        return chr(value[0])
    return _CLASSES.get(value, "a") if kind is _constants.CATEGORY else chr(value)


def _holds(item: tuple[Any, Any], letter: str) -> bool:
    kind, value = item
    if kind is _constants.LITERAL:
        return bool(ord(letter) == value)
    if kind is _constants.RANGE:
        return bool(value[0] <= ord(letter) <= value[1])
    return _CLASSES.get(value) == letter
