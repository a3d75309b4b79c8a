"""Redirect internally to a folder's index files that belong to another location, as nginx does.

nginx looks for an index file in the folder of the requested location, and then chooses a location for the path of the
index file. mod_dir looks in the folder of that second location instead, and accepts only existing files. Where the two
folders differ, rewrite rules look for the index file as nginx does, and redirect internally to its path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from panel.rendering import checks, exclusive, handlers, reach
from panel.rendering.apache import rewrites, rewriting
from panel.rendering.apache.quoting import Interpolator, rewrite_regex, target
from panel.rendering.exclusive import Condition
from panel.rendering.locations import Locations, Place
from panel.rendering.spec import Location, ServerBlock
from panel.rendering.tree import Directive, directive

METHODS = ("%{REQUEST_METHOD}", "^(?:GET|HEAD|POST)$")  # other methods get no index file (ngx_http_index_module.c)


def asking(block: ServerBlock, found: Locations, at: str) -> tuple[Locations, dict[Place, tuple[str, ...]]]:
    """Return the locations of a server block, and a dict: location whose folders need rewrite rules for index files ->
    names of the index files.

    If folders without a location need such rules, both results contain one more location, which stands for these
    folders.
    """
    wanted: dict[Place, tuple[str, ...]] = {}
    for owner, others in reach.by_index(block, found).items():
        if (owner and owner.location.handler != "static") or not any(_elsewhere(block, owner, it) for it in others):
            continue
        names = reach.index_names(block, owner)
        if any(name.startswith("/") for name in names):
            continue
        if owner is None:
            owner = Place(Location("", "/", "static"), at, len(found.places))
            found = replace(found, places=(*found.places, owner))
        wanted[owner] = names
    return found, wanted


def _elsewhere(block: ServerBlock, owner: Place | None, other: Place | None) -> bool:
    """Return whether mod_dir would look for an index file in another folder than nginx, or in none.

    `owner` is the location of the folder, `other` the location that handles the path of the index file.
    """
    handler = other.location.handler if other else "static"
    if handler == "deny":
        return False
    return handler in ("return", "proxy") or _files(block, owner) != _files(block, other)


def _files(block: ServerBlock, place: Place | None) -> tuple[str, str]:
    return (block.root, "") if place is None else (place.location.root or block.root, place.location.alias)


def rules(place: Place, names: Sequence[str], condition: Condition, root: str, words: Interpolator) -> list[Directive]:
    """Return rewrite rules of the virtual host that find the index files `names` in a location's folders.

    [] for a location without a folder for its files, and for a location with access control: `of_section` renders rules
    for its section.
    """
    if handlers.asks_access(place.location) or not (root or place.location.alias or place.location.root):
        return []
    found: list[Directive] = []
    folder = rewriting.file_of(place, "$uri", place.location.root or root, words, f"{place.pointer}/index")
    for number, name in enumerate(names):
        tests = [METHODS, (folder + target(name), "-f"), _asked(place, number, name)]
        comment = "" if number else f"Index files of location {place.label}".replace("\n", " ")
        flags = f"[E={rewrites.TO}:%1,L]"
        found += rewriting.rule(
            rewriting.with_rest(place, condition), tests, rewrites.NOWHERE, flags, place.pointer, comment
        )
    return found


def of_section(place: Place, names: Sequence[str], *, encodes: bool) -> list[Directive]:
    """Return directives for a location's section: they disable mod_dir, which looks for index files by itself.

    For a location with access control, rewrite rules follow, which look for the index files `names` after access
    control.
    """
    lines = [directive("DirectoryIndex", "disabled")]
    if not handlers.asks_access(place.location):
        return lines
    lines.append(directive("RewriteEngine", "On"))
    for number, name in enumerate(names):
        tests = [METHODS, ("%{REQUEST_FILENAME}/" + target(name), "-f"), _asked(place, number, name)]
        lines += [directive("RewriteCond", *test) for test in tests]
        lines.append(rewrites.asks_for_last(encodes=encodes))
    return lines


def _asked(place: Place, number: int, name: str) -> tuple[str, str]:
    """Return a rewrite condition (text, pattern) that captures the path of the index file `name` in the requested
    folder.

    The condition fails for requests of files, whose path does not end in /.
    """
    name = checks.file_name(name, f"{place.pointer}/index/{number}")
    expression = rewrite_regex(f"(?s)^(.*/{exclusive.quote(name)})$", f"{place.pointer}/index/{number}")
    return "%{REQUEST_URI}" + target(name), expression
