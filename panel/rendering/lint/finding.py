"""One finding, and how its mending reaches into a definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Socket = tuple[str, int]  # a listen's address ("" for all) and port
Mend = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Finding:
    """`where` is the place in the definition (blocks/0/locations/2). `fix` says in words what `mend` does to the
    definition; both are empty where only a person can decide."""

    code: str
    where: str
    what: str
    why: str
    fix: str = ""
    mend: Mend | None = None
    is_raw: bool = False  # mending it changes directives in the server's own words


def part(definition: dict[str, Any], where: str) -> dict[str, Any]:
    """The block or location at a place."""
    words = where.split("/")
    found: Any = definition
    for word in words:
        found = found[int(word)] if isinstance(found, list) else found[word]
    assert isinstance(found, dict)
    return found


def setting(where: str, **members: Any) -> Mend:
    """Gives the part at `where` these members."""

    def mend(definition: dict[str, Any]) -> None:
        part(definition, where).update(members)

    return mend
