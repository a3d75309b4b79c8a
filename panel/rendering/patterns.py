"""Find the possible captures of a regular expression's groups on a request's path, as automata (`languages.Language`).

A small PCRE parser builds a nondeterministic automaton over four letters: `.`, `/`, `n` for a line break, and `x` for
any other character. If the expression has unsupported syntax (look-around, back-references), every group may capture
any part of a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from panel.rendering import languages
from panel.rendering.languages import BREAK, LETTERS, Language

MOST_STATES = 4000
_EVERY = frozenset(LETTERS)
_SAMPLES = {letter: letter for letter in "./"} | {BREAK: "\n"}
_OTHERS = [chr(code) for code in range(256) if chr(code) not in "./\n"]
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d+)(,\d*)?\})[?+]?")
_OPENING = re.compile(r"\((?:\?(?:P?<(?P<name>[A-Za-z_]\w*)>|'(?P<quoted>[A-Za-z_]\w*)'|(?P<plain>[imsx]*:)))?")
_FLAGS = re.compile(r"\(\?[ims]+\)")
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|[dDwWsS]|[^A-Za-z0-9]|[tnrfae])", re.S)
_ANCHORS = {"^": "begin", "$": "end", "\\A": "begin", "\\Z": "end", "\\z": "last", "\\b": "", "\\B": ""}


class Unknown(Exception):
    """Error for unsupported syntax in a regular expression, or for an automaton with more than MOST_STATES states."""


@dataclass
class Automaton:
    """Nondeterministic automaton of a regular expression. `edges` maps each state to (requirement, next state) pairs.

    A requirement is a set of allowed letters, or a position: "begin", "end" or "last". An edge with "" requires
    nothing.
    """

    edges: dict[int, list[tuple[frozenset[str] | str, int]]] = field(default_factory=dict)
    opens: dict[int, tuple[int, int]] = field(default_factory=dict)  # group -> states of its opening edge
    closes: dict[int, tuple[int, int]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)

    def state(self) -> int:
        number = len(self.edges)
        if number > MOST_STATES:
            raise Unknown
        self.edges[number] = []
        return number

    def edge(self, start: int, asks: frozenset[str] | str, end: int) -> None:
        self.edges[start].append((asks, end))


class _Reader:
    """Recursive-descent parser of regular expressions. Methods read a part from `at`, and return its first and last
    state.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at, self.made, self.groups = text, 0, Automaton(), 0

    def whole(self) -> tuple[int, int]:
        found = self._alternatives()
        if self.at < len(self.text):
            raise Unknown
        return found

    def _alternatives(self) -> tuple[int, int]:
        first, last = self.made.state(), self.made.state()
        while True:
            start, end = self._sequence()
            self.made.edge(first, "", start)
            self.made.edge(end, "", last)
            if self.text[self.at : self.at + 1] != "|":
                return first, last
            self.at += 1

    def _sequence(self) -> tuple[int, int]:
        first = last = self.made.state()
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            start, end = self._repeated()
            self.made.edge(last, "", start)
            last = end
        return first, last

    def _repeated(self) -> tuple[int, int]:
        first, last = self._atom()
        while found := _QUANTIFIER.match(self.text, self.at):
            self.at = found.end()
            sign, few = found[0][0], found[1]
            start, end = self.made.state(), self.made.state()
            self.made.edge(start, "", first)
            self.made.edge(last, "", end)
            if sign in "*?" or (few is not None and int(few) == 0):
                self.made.edge(start, "", end)
            if sign != "?":  # also for counted repetitions: checking more repetitions than allowed is safe
                self.made.edge(last, "", first)
            first, last = start, end
        return first, last

    def _atom(self) -> tuple[int, int]:
        sign = self.text[self.at]
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._set(self._class())
        for spelled, place in _ANCHORS.items():
            if self.text.startswith(spelled, self.at):
                self.at += len(spelled)
                return self._asking(place)
        if sign == "\\":
            found = _ESCAPE.match(self.text, self.at)
            if found is None:
                raise Unknown
            self.at = found.end()
            return self._set(found[0])
        self.at += 1
        if sign in "*+?":
            raise Unknown
        return self._asking(_EVERY if sign == "." else frozenset({languages.letter(sign)}))

    def _group(self) -> tuple[int, int]:
        if found := _FLAGS.match(self.text, self.at):
            self.at = found.end()
            return self._asking("")
        found = _OPENING.match(self.text, self.at)
        if found is None or self.text.startswith(("?", "*"), found.end()) or "x" in (found["plain"] or ""):
            raise Unknown
        self.at = found.end()
        number = 0
        if found["plain"] is None:
            self.groups += 1
            number = self.groups
            if name := found["name"] or found["quoted"]:
                self.made.names[name] = number
        first, last = self._alternatives()
        if self.text[self.at : self.at + 1] != ")":
            raise Unknown
        self.at += 1
        if not number:
            return first, last
        start, end = self.made.state(), self.made.state()
        self.made.edge(start, "", first)
        self.made.edge(last, "", end)
        self.made.opens[number], self.made.closes[number] = (start, first), (last, end)
        return start, end

    def _class(self) -> str:
        end = self.at + 1
        end += self.text[end : end + 1] == "^"
        end += self.text[end : end + 1] == "]"
        while end < len(self.text) and self.text[end] != "]":
            end += 2 if self.text[end] == "\\" else 1
        found = self.text[self.at : end + 1]
        if "[:" in found or not found.endswith("]"):
            raise Unknown
        self.at = end + 1
        return found

    def _set(self, spelled: str) -> tuple[int, int]:
        try:
            fits = re.compile(spelled, re.S).fullmatch
        except re.error as error:
            raise Unknown from error
        found = {letter for letter, sample in _SAMPLES.items() if fits(sample)}
        # Bytes above ASCII always count as other characters.
        if any(fits(sample) for sample in _OTHERS) or spelled.startswith("["):
            found.add(languages.OTHER)
        return self._asking(frozenset(found))

    def _asking(self, asks: frozenset[str] | str) -> tuple[int, int]:
        start, end = self.made.state(), self.made.state()
        self.made.edge(start, asks, end)
        return start, end


# State of the search: of the automaton, of the path's segment, and the position in the path: "start", "inside", "end"
# (before an optional final line break, where `$` matches), or "last".
_Search = tuple[int, str, str]


@lru_cache(maxsize=1024)
def capture_languages(pattern: str, *, line_breaks: bool) -> Mapping[str, Language]:
    """Return the possible captures of a regular expression's groups, as automata by group number and name.

    An unmatched group is empty, so every automaton accepts the empty text.
    """
    reader = _Reader(_to_its_end(pattern))
    try:
        first, last = reader.whole()
        return _captured(reader.made, first, last, line_breaks)
    except (Unknown, IndexError, RecursionError):
        part = _part_of_a_path(line_breaks)
        names = re.findall(r"\(\?P?[<']([A-Za-z_]\w*)[>']", pattern)
        return dict.fromkeys([*(str(number) for number in range(1, 10)), *names], part)


def _to_its_end(pattern: str) -> str:
    """Add `$` to a pattern that ends in `(.*)` or `(.+)`.

    Such a pattern matches the rest of the path anyway, but the parser ignores greediness and would allow shorter
    captures.
    """
    return f"{pattern}$" if re.search(r"(?<!\\)\(\.[*+]\)\Z", pattern) and "|" not in pattern else pattern


def _part_of_a_path(line_breaks: bool) -> Language:
    """Return the automaton for every text that can be a part of a path without a `..` segment.

    The first and last segments of the text may be incomplete.
    """

    def step(state: object, found: str) -> tuple[object, ...]:
        if found == BREAK and not line_breaks:
            return ()
        following = languages.segment(str(state), found)
        return () if following is None else (following,)

    return Language(frozenset({"/", ".", "..", "x"}), step, lambda _: True)


def _captured(made: Automaton, first: int, last: int, line_breaks: bool) -> dict[str, Language]:
    before, after = made.state(), made.state()
    made.edge(before, _EVERY, before)
    made.edge(before, "", first)
    made.edge(last, "", after)
    made.edge(after, _EVERY, after)
    letters = LETTERS if line_breaks else LETTERS.replace(BREAK, "")
    graph = _reached(made, (before, "", "start"), letters)
    useful = _leading(graph, after)
    found: dict[str, Language] = {}
    for number in made.opens:
        found[str(number)] = _between(graph, useful, made.opens[number], made.closes[number])
    return found | {name: found[str(number)] for name, number in made.names.items()}


_Graph = dict[_Search, list[tuple[str, _Search]]]


def _reached(made: Automaton, start: _Search, letters: str) -> _Graph:
    graph: _Graph = {}
    left = [start]
    while left:
        state = left.pop()
        if state in graph:
            continue
        graph[state] = list(_moves(made, state, letters))
        left += [following for _, following in graph[state]]
    return graph


def _moves(made: Automaton, state: _Search, letters: str) -> Iterator[tuple[str, _Search]]:
    number, path, place = state
    for asks, following in made.edges[number]:
        if isinstance(asks, str):
            if (there := _asserted(asks, place)) is not None:
                yield "", (following, path, there)
            continue
        for mark in asks:
            after = languages.segment(path, mark)
            if mark in letters and after is not None and place != "last" and (place != "end" or mark == BREAK):
                yield mark, (following, after, "last" if place == "end" else "inside")


def _asserted(asks: str, place: str) -> str | None:
    if asks == "begin":
        return place if place == "start" else None
    if asks == "end":
        return place if place in ("end", "last") else "end"
    return "last" if asks == "last" else place


def _leading(graph: _Graph, after: int) -> set[_Search]:
    """Return the states of the search (see _Search) from which a path without a `..` segment can still reach the
    automaton's state `after`.
    """
    back: dict[_Search, list[_Search]] = {}
    for state, moves in graph.items():
        for _, following in moves:
            back.setdefault(following, []).append(state)
    left = [state for state in graph if state[0] == after and state[1] not in ("", "..")]
    found = set(left)
    while left:
        for state in back.get(left.pop(), ()):
            if state not in found:
                found.add(state)
                left.append(state)
    return found


def _between(graph: _Graph, useful: set[_Search], opens: tuple[int, int], closes: tuple[int, int]) -> Language:
    """Return the automaton for the texts between a group's opening and closing edge."""
    closed = {state for state in useful if state[0] == closes[0]}
    entered = {state for state in useful if state[0] == opens[1]}

    def closure(states: set[_Search]) -> frozenset[object]:
        left, seen = list(states), set(states)
        while left:
            for mark, following in graph[left.pop()]:
                if not mark and following in useful and following not in seen:
                    seen.add(following)
                    left.append(following)
        return frozenset(seen)

    def step(state: object, found: str) -> frozenset[object]:
        if state == "empty":
            return frozenset()
        moves = graph[state]  # type: ignore[index]
        return closure({following for mark, following in moves if mark == found and following in useful})

    return Language(closure(entered) | {"empty"}, step, lambda state: state == "empty" or state in closed)
