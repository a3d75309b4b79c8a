"""Locations that a server itself leads to: by a folder's index file, or by the last item of try_files.

nginx chooses a location anew for such a path. Servers that look for the file at once need to know where that matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from panel.rendering.choice import choose
from panel.rendering.errors import NotExpressible
from panel.rendering.locations import Locations, Place
from panel.rendering.spec import ServerBlock

_FILES = ("static", "php")


def by_index(block: ServerBlock, found: Locations) -> dict[Place | None, frozenset[Place | None]]:
    """The locations whose folders have index files that others answer, and those others. None: the block itself."""
    reached: dict[Place | None, set[Place | None]] = {}
    for folder in _folders(found):
        place = _answering(found, folder)
        if place is not None and place.location.handler not in _FILES:
            continue
        targets = {_answering(found, folder + name) for name in index_names(block, place)}
        reached.setdefault(place, set()).update(targets - {place})
    return {place: frozenset(targets) for place, targets in reached.items() if targets}


def index_names(block: ServerBlock, place: Place | None) -> tuple[str, ...]:
    """The index files of the location's folders, in order."""
    return (place.location.index if place else ()) or block.index or ("index.html",)


def by_fallback(place: Place, found: Locations) -> Place | None:
    """The one that answers the last item of the location's try_files, where that is a path without variables in it."""
    last = place.location.try_files[-1] if place.location.try_files else ""
    path = last.partition("?")[0].removesuffix("$is_args$args")
    if not path.startswith("/") or "$" in path or place.location.handler not in _FILES:
        return None
    return _answering(found, path)


def _folders(found: Locations) -> Iterator[str]:
    """A folder for each prefix and exact path, the root, and one that no location names."""
    paths = {place.pattern for place in (*found.exact, *found.prefixes)} | {"/", "/paddock-any/"}
    paths |= {path for place in found.regexes for path in _named_by(place.pattern)}
    yield from sorted({path[: path.rindex("/") + 1] for path in paths} | {path.rstrip("/") + "/" for path in paths})


def _named_by(pattern: str) -> Iterator[str]:
    """Folders that a regular expression may be about: the words in it, alone and as it joins them."""
    plain = re.sub(r"\\[A-Za-z]", " ", pattern)  # \d and its like are no words
    yield from (f"/{word}/" for word in re.findall(r"\w+", plain))
    yield from (f"{path}/" for path in re.findall(r"(?:/\w+)+", plain))


def _answering(found: Locations, path: str) -> Place | None:
    try:
        return choose(found, path).place
    except NotExpressible:  # an expression that only PCRE understands: nobody can say here
        return None
