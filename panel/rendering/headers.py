"""Check headers of a location, and merge its response headers with those of the server block."""

from __future__ import annotations

from panel.rendering import checks
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import Header


def check(headers: tuple[Header, ...], at: str) -> None:
    for number, header in enumerate(headers):
        checks.word(header.name, checks.HEADER_NAME, f"{at}/{number}/name", "a header's name")
        checks.text(header.value, f"{at}/{number}/value")
        if header.value != header.value.strip(" "):
            raise NotExpressible(
                f"{at}/{number}/value", "the header value starts or ends with a space; remove the space"
            )


def merged(block: tuple[Header, ...], own: tuple[Header, ...]) -> tuple[tuple[Header, int | None], ...]:
    """Return (header, index in `own`) pairs: first the server block's headers whose names are not in `own`, with the
    index None, then all headers of `own`.
    """
    replaced = {header.name.lower() for header in own}
    kept = [(header, None) for header in block if header.name.lower() not in replaced]
    return (*kept, *((header, number) for number, header in enumerate(own)))


def passed_on(name: str) -> str:
    """Return the variable with the client's value of the request header `name`: `$http_user_agent` for User-Agent."""
    return f"$http_{name.lower().replace('-', '_')}"


def is_passed_on(header: Header) -> bool:
    """Return whether the upstream receives the header as the client sent it."""
    return header.value == passed_on(header.name)
