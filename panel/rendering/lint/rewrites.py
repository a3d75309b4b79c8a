"""Find mistakes in redirects by rewrite: the visitor controls the target or can split the response."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

from panel.rendering import rewriting
from panel.rendering.lint.finding import Finding, Fix, setting
from panel.rendering.lint.model import decoded, encoded, to_own_name
from panel.rendering.spec import Location, Rewrite, ServerBlock


def of(block: ServerBlock, owner: ServerBlock | Location, where: str) -> Iterator[Finding]:
    for number, item in enumerate(owner.rewrites):
        if not rewriting.redirects(item):
            continue
        if led := to_own_name(block, item.replacement):
            variable, name, target = led
            yield Finding(
                "host-redirect",
                where,
                f"The rewrite {item.pattern} redirects to ${variable}, a host name that the visitor sends.",
                "This server block accepts any host name, so a manipulated link or a poisoned cache can "
                "redirect visitors to another site.",
                f"Redirect to {name}" if name else "",
                _changed(owner, where, number, target) if name else None,
            )
        if decoded(item.replacement):
            safe = encoded(item.replacement)
            safe = safe if safe.endswith("?") else f"{safe}?"  # $request_uri includes the query
            yield Finding(
                "response-splitting",
                where,
                f"The rewrite {item.pattern} redirects to {item.replacement}, which contains a decoded part of the "
                "URL.",
                "%0d%0a in the URL becomes a line break in the response, so a manipulated link can add "
                "headers, cookies, and text.",
                "" if decoded(safe) else f"Redirect to {safe}",
                None if decoded(safe) else _changed(owner, where, number, safe),
            )


def _changed(owner: ServerBlock | Location, where: str, number: int, replacement: str) -> Fix:
    items: list[Rewrite] = list(owner.rewrites)
    items[number] = replace(items[number], replacement=replacement)
    return setting(where, rewrites=[asdict(item) for item in items])
