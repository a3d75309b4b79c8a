"""Find locations that internal redirects reach: by a folder's index file, or the last item of try_files.

nginx chooses a location again for the new path. Apache and OpenLiteSpeed may look for the file without a new choice, so
their renderings need to know the locations for which the result differs.
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
    """Map each location to the other locations that handle the index files of its folders. Instead of a location, None
    stands for the server block, which handles paths without a location.
    """
    reached: dict[Place | None, set[Place | None]] = {}
    for folder in _folders(found):
        place = _answering(found, folder)
        if place is not None and place.location.handler not in _FILES:
            continue
        targets = {_answering(found, folder + name) for name in index_names(block, place)}
        reached.setdefault(place, set()).update(targets - {place})
    return {place: frozenset(targets) for place, targets in reached.items() if targets}


def of_index(found: Locations, place: Place | None, name: str) -> frozenset[Place | None]:
    """Return the locations that handle the index file `name` in the sample folders that the location `place` handles.
    None stands for the server block, which handles paths without a location.
    """
    folders = [folder for folder in _folders(found) if _answering(found, folder) == place]
    return frozenset(_answering(found, folder + name) for folder in folders)


def index_names(block: ServerBlock, place: Place | None) -> tuple[str, ...]:
    """Return the index files of the folders of a location, in order. If `place` is None: of folders that no location
    handles.
    """
    return (place.location.index if place else ()) or block.index or ("index.html",)


def by_fallback(place: Place, found: Locations) -> Place | None:
    """Return the location that handles the last item of the try_files of `place`. None if this item is not a path, or
    is a path with variables, or if the handler of `place` is neither static nor php.
    """
    last = place.location.try_files[-1] if place.location.try_files else ""
    path = last.partition("?")[0].removesuffix("$is_args$args")
    if not path.startswith("/") or "$" in path or place.location.handler not in _FILES:
        return None
    return _answering(found, path)


def _folders(found: Locations) -> Iterator[str]:
    """Yield sample folders: the root, a folder for each location's prefix, path or expression, and one outside of all
    these.
    """
    paths = {place.pattern for place in (*found.exact, *found.prefixes)} | {"/", "/paddock-any/"}
    paths |= {path for place in found.regexes for path in _named_by(place.pattern)}
    yield from sorted({path[: path.rindex("/") + 1] for path in paths} | {path.rstrip("/") + "/" for path in paths})


def _named_by(pattern: str) -> Iterator[str]:
    """Yield sample folders for a regular expression: its words, as single folders and joined to the paths in the
    expression.
    """
    plain = re.sub(r"\\[A-Za-z]", " ", pattern)  # \d and similar are not words
    yield from (f"/{word}/" for word in re.findall(r"\w+", plain))
    yield from (f"{path}/" for path in re.findall(r"(?:/\w+)+", plain))


def _answering(found: Locations, path: str) -> Place | None:
    try:
        return choose(found, path).place
    except NotExpressible:  # only PCRE understands the expression, so skip it
        return None
