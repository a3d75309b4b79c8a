"""Regular expressions of a site, searched as the servers do: byte by byte, since they use PCRE without its UTF mode."""

from __future__ import annotations

import re
from functools import lru_cache

from panel.rendering.errors import NotExpressible


@lru_cache(maxsize=512)
def compiled(pattern: str, nocase: bool = False) -> re.Pattern[bytes]:
    """Raises NotExpressible for what only PCRE knows: then nobody here can say what it matches."""
    spelled = re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern)  # Python's way to name a group
    spelled = re.sub(r"\(\?'([A-Za-z_]\w*)'", r"(?P<\1>", spelled)
    try:
        return re.compile(spelled.encode("utf-8", "surrogateescape"), re.IGNORECASE if nocase else 0)
    except re.error as error:
        raise NotExpressible("/", f"“{pattern}” cannot be explained here: {error}") from error


def search(pattern: str, text: str, *, nocase: bool = False) -> dict[str, str] | None:
    """The captures by number and name where `pattern` is found in `text`, else None."""
    found = compiled(pattern, nocase).search(text.encode("utf-8", "surrogateescape"))
    if found is None:
        return None
    captures: dict[str, bytes | None] = {str(number): value for number, value in enumerate(found.groups(), 1)}
    captures |= found.groupdict()
    return {name: (value or b"").decode("utf-8", "surrogateescape") for name, value in captures.items()}
