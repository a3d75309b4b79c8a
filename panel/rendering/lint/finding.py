"""Finding of a known mistake, and the functions that apply its fix to a definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Socket = tuple[str, int]  # address ("" for all) and port of a listen
Fix = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Finding:
    """One known mistake in a site.

    `where` is the part of the site's definition with the mistake, for example blocks/0/locations/2. `fix` describes the
    change to the definition; it is empty if a person has to decide.
    """

    code: str
    where: str
    what: str
    why: str
    fix: str = ""
    apply_fix: Fix | None = None
    is_raw: bool = False  # the fix changes raw directives


def part(definition: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the server block or location of a definition at `where`, for example `blocks/0/locations/2`."""
    words = where.split("/")
    found: Any = definition
    for word in words:
        found = found[int(word)] if isinstance(found, list) else found[word]
    assert isinstance(found, dict)
    return found


def setting(where: str, **members: Any) -> Fix:
    """Return a fix that gives the fields in `members` their new values, in the server block or location at `where`."""

    def fix(definition: dict[str, object]) -> None:
        part(definition, where).update(members)

    return fix
