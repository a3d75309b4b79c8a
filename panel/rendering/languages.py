"""Sets of texts over four letters, as small automata, for the possible contents of a part of a path.

Four letters suffice to find `..` segments: `.`, `/`, `n` for a line break, and `x` for any other character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

DOT, SLASH, BREAK, OTHER = "./nx"
LETTERS = DOT + SLASH + BREAK + OTHER


@dataclass(frozen=True)
class Language:
    """Set of texts as a nondeterministic automaton. `step(state, letter)` gives the possible next states;
    `accepts(state)` is True if a text can end in this state. States are any hashable values.
    """

    starts: frozenset[object]
    step: Callable[[object, str], Iterable[object]]
    accepts: Callable[[object], bool]


def letter(character: str) -> str:
    if character in (DOT, SLASH):
        return character
    return BREAK if character == "\n" else OTHER


def literal(text: str) -> Language:
    word = "".join(map(letter, text))
    size = len(word)
    return Language(
        frozenset({0}),
        lambda at, found: (int(str(at)) + 1,) if int(str(at)) < size and word[int(str(at))] == found else (),
        lambda at: at == size,
    )


# States within a segment: "" at the start of the text, "/" after a slash, "." and ".." for these segments so far, "x"
# for any other segment.
_NEXT = {("/", DOT): ".", (".", DOT): ".."}


def segment(state: str, found: str) -> str | None:
    """Return the state of a path after its next letter `found`; None if the path then contains a `..` segment or does
    not begin with /.
    """
    if found == SLASH:
        return None if state == ".." else "/"
    if state == "":
        return None
    return _NEXT.get((state, found), "x")


def path(*, line_breaks: bool) -> Language:
    """Return the automaton for paths that begin with / and have no `..` segment."""

    def step(state: object, found: str) -> tuple[object, ...]:
        if found == BREAK and not line_breaks:
            return ()
        following = segment(str(state), found)
        return () if following is None else (following,)

    return Language(frozenset({""}), step, lambda state: state not in ("", ".."))


ANYTHING = Language(frozenset({0}), lambda _, found: (0,), lambda _: True)
WORD = Language(frozenset({0}), lambda _, found: (0,) if found == OTHER else (), lambda _: True)


def _address(state: object, found: str) -> tuple[object, ...]:
    if found == OTHER:
        return (OTHER,)
    return (DOT,) if found == DOT and state != DOT else ()


# Servers reject a Host header that is empty (without its final dot), contains a slash, or has two dots in a row.
ADDRESS = Language(frozenset({""}), _address, lambda state: state == OTHER)


def stays(parts: Iterable[Language]) -> bool:
    """Return whether every text made of the `parts`, in order, is empty or a path that begins with / and has no `..`
    segment.

    Each part is the set of its possible texts.
    """
    states = {""}
    for part in parts:
        following = _after(states, part)
        if following is None:
            return False
        states = following
    return ".." not in states


def _after(states: set[str], part: Language) -> set[str] | None:
    """Return the possible states of a path after one more `part`; None if the path can then contain a `..` segment."""
    left = [(state, inner) for state in states for inner in part.starts]
    seen = set(left)
    found: set[str] = set()
    while left:
        state, inner = left.pop()
        if part.accepts(inner):
            found.add(state)
        for mark in LETTERS:
            for next_inner in part.step(inner, mark):
                following = segment(state, mark)
                if following is None:
                    if _can_end(part, next_inner):
                        return None
                    continue
                if (following, next_inner) not in seen:
                    seen.add((following, next_inner))
                    left.append((following, next_inner))
    return found


def _can_end(part: Language, inner: object) -> bool:
    """Return whether the automaton can still reach an accepting state from the state `inner`."""
    left, seen = [inner], {inner}
    while left:
        state = left.pop()
        if part.accepts(state):
            return True
        for mark in LETTERS:
            for following in part.step(state, mark):
                if following not in seen:
                    seen.add(following)
                    left.append(following)
    return False
