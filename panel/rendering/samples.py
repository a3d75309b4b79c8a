"""Create sample paths that a location handles, from its pattern, for requests and for lint. The functions access no
host.

The texts that `of_pattern` creates for a regular expression are guesses, so `reaching` tries each with the rules by
which servers choose a location (choice.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from panel.rendering.choice import choose
from panel.rendering.errors import NotExpressible
from panel.rendering.locations import Locations, Place

WORD = "paddock-check"
MOST = 24  # texts made of one pattern
_LETTERS = "xa1X0-_./ "
_ESCAPES = {"d": "1", "w": "x", "S": "x", "D": "x", "W": "-", "h": " ", "s": " ", "n": "", "r": "", "t": ""}
_NOTHING = frozenset("AbBzZGK")
_GROUP = re.compile(r"\?(?:P?<[A-Za-z_]\w*>|'[A-Za-z_]\w*'|:|>|\|)")
_LOOK = re.compile(r"\?(?:[=!]|<[=!])|\?[a-zA-Z-]+\)")
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}")


class _Unknown(Exception):
    """Error for syntax that the reader of regular expressions does not support."""


def of_pattern(pattern: str) -> list[str]:
    """Return at most MOST texts that the regular expression probably matches; none for unsupported syntax."""
    reader = _Reader(pattern)
    try:
        found = reader.alternatives()
    except (_Unknown, IndexError, RecursionError):
        return []
    return [text for text in found if reader.at == len(pattern)]


class _Reader:
    """Reader of one regular expression from left to right. Each method reads a part and returns texts that the part may
    match.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def alternatives(self) -> list[str]:
        found = self._sequence()
        while self._next() == "|":
            self.at += 1
            found = found + self._sequence()
        return list(dict.fromkeys(found))[:MOST]

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _sequence(self) -> list[str]:
        found = [""]
        while self._next() not in ("", "|", ")"):
            parts = self._repeated(self._atom())
            found = list(dict.fromkeys(one + other for one, other in product(found, parts)))[:MOST]
        return found

    def _repeated(self, texts: list[str]) -> list[str]:
        sign = self._next()
        counted = _COUNT.match(self.pattern, self.at)
        if sign and sign in "*+?":
            self.at += 1
            texts = texts if sign == "+" else [*texts, ""]
        elif counted:
            self.at = counted.end()
            texts = [text * int(counted[1] or 0) for text in texts]
        else:
            return texts
        if self._next() and self._next() in "?+":
            self.at += 1
        return texts

    def _atom(self) -> list[str]:
        sign = self._next()
        self.at += 1
        if sign == "(":
            return self._group()
        if sign == "[":
            return [self._of_class()]
        if sign == "\\":
            return [self._escaped()]
        if sign in "^$":
            return [""]
        if sign in "*+?":
            raise _Unknown
        return ["x" if sign == "." else sign]

    def _escaped(self) -> str:
        letter = self._next()
        self.at += 1
        if letter in _NOTHING:
            return ""
        if letter.isalnum() and letter not in _ESCAPES:
            raise _Unknown
        return _ESCAPES.get(letter, letter)

    def _group(self) -> list[str]:
        if look := _LOOK.match(self.pattern, self.at):
            self.at = look.end()
            if look[0].endswith(")"):  # flags only
                return [""]
            self.alternatives()
            self._close()
            return [""]
        if named := _GROUP.match(self.pattern, self.at):
            self.at = named.end()
        elif self._next() in ("?", "*"):
            raise _Unknown
        found = self.alternatives()
        self._close()
        return found

    def _close(self) -> None:
        if self._next() != ")":
            raise _Unknown
        self.at += 1

    def _of_class(self) -> str:
        end = self.at + (self._next() == "^")
        end += self.pattern[end] == "]"
        while self.pattern[end] != "]":
            end += 2 if self.pattern[end] == "\\" else 1
        inside = self.pattern[self.at : end]
        self.at = end + 1
        if "[:" in inside:
            raise _Unknown
        return _one_of(inside)


def _one_of(inside: str) -> str:
    """Return a letter that a character class matches. `inside` is the class without brackets."""
    known, is_negated = _members(inside.removeprefix("^")), inside.startswith("^")
    if not is_negated and known:
        return min(known, key=lambda letter: (_LETTERS.find(letter) % len(_LETTERS), letter))
    return next((letter for letter in _LETTERS if letter not in known), "x")


def _members(text: str) -> set[str]:
    found: set[str] = set()
    at = 0
    while at < len(text):
        letter = text[at]
        if letter == "\\" and at + 1 < len(text):
            found.add(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
        elif text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            found |= {chr(code) for code in range(ord(letter), min(ord(text[at + 2]), ord(letter) + 128) + 1)}
            at += 3
        else:
            found.add(letter)
            at += 1
    return found - {""}


def candidates(place: Place, found: Locations) -> Iterator[str]:
    """Yield paths that match the pattern of a location, the plainest first; another location may handle them."""
    pattern = place.pattern
    if place.location.match == "=":
        yield from (path for path in [pattern] if _is_plain(path))
        return
    if not place.is_regex:
        slash = pattern if pattern.endswith("/") else pattern + "/"
        made = [slash + WORD, pattern, f"{slash}{WORD}.html", f"{slash}{WORD}/x.php", f"{slash}{WORD}.jpg"]
        yield from (path for path in made if _is_plain(path))
        return
    texts = of_pattern(pattern)
    folders = [f"/{WORD}", "/", *(item.pattern.rstrip("/") + f"/{WORD}" for item in found.prefixes)]
    made = [text for text in texts if text.startswith("/")]
    if not pattern.startswith("^"):
        made += [folder + text for folder in folders for text in texts if not text.startswith("/")]
        made += [folder.rstrip("/") + text for folder in folders for text in texts if text.startswith("/")]
    plain = [path for path in made if _is_plain(path)]
    # "/." alone would be the folder itself; a longer name is hidden, too.
    yield from dict.fromkeys(plain or [path + WORD for path in made if _is_plain(path + WORD)])


def _is_plain(path: str) -> bool:
    """Return whether clients and servers use the path unchanged: no dot segments, no characters that need escapes."""
    if {".", ".."} & set(path.split("/")):
        return False
    return path.startswith("/") and path.isascii() and path.isprintable() and not set(path) & set(' "<>\\^`{|}%?#')


def reaching(place: Place, found: Locations) -> str:
    """Return a sample path that the location `place` handles; "" if other locations handle all candidates."""
    for path in candidates(place, found):
        try:
            chosen = choose(found, path)
        except NotExpressible:
            return ""
        if chosen.place == place and not chosen.slash:
            return path
    return ""
