"""Render the maintenance page of a site, and check its settings. The functions access no database and no host.

The page replaces everything except ACME challenges, before rewrites, access rules, and locations. Plain HTTP of a block
that redirects to HTTPS still redirects.
"""

from __future__ import annotations

import html
import ipaddress
import re
from dataclasses import replace

from panel.rendering import challenges, checks
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import Location, Maintenance, ServerBlock, SiteSpec

MAX_TEXT = 500
STATUS = 503
_FIELD = "/maintenance"
_STYLE = (
    "body{font:1.1rem/1.6 system-ui,sans-serif;max-width:36rem;margin:20vh auto;padding:0 1rem;"
    "color:#1f2430;background:#fff}@media(prefers-color-scheme:dark){body{color:#e6e8ee;background:#15171c}}"
)


def check(maintenance: Maintenance) -> None:
    """Raise NotExpressible for an invalid text, time or address of the maintenance page."""
    checks.text(maintenance.text, f"{_FIELD}/text")
    if not maintenance.text.strip() or len(maintenance.text) > MAX_TEXT:
        raise NotExpressible(f"{_FIELD}/text", f"the maintenance page needs a text of at most {MAX_TEXT} characters")
    if not 1 <= maintenance.retry_after_s <= 7 * 86400:
        raise NotExpressible(f"{_FIELD}/retry_after_s", "Retry-After needs a number of seconds from 1 to 604800")
    for number, source in enumerate(maintenance.allowed):
        if checks.source(source, f"{_FIELD}/allowed/{number}") == "all":
            raise NotExpressible(
                f"{_FIELD}/allowed/{number}",
                "allowed addresses must be IP addresses or networks, for example 10.0.0.0/8",
            )


def page(maintenance: Maintenance) -> str:
    """Return the page as one line of ASCII without double quotes, so that it fits every server's syntax."""
    text = html.escape(maintenance.text.strip()).encode("ascii", "xmlcharrefreplace").decode()
    text = re.sub(r"[$%{}\\`]", lambda found: f"&#{ord(found[0])};", text)
    return (
        f"<!DOCTYPE html><html><head><meta charset=utf-8><title>Maintenance</title>"
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style></head>"
        f"<body><main><p>{text}</p></main></body></html>"
    )


def excepts(spec: SiteSpec, address: str) -> bool:
    """Return whether a client at `address` sees the site instead of the maintenance page."""
    if spec.maintenance is None:
        return True
    client = ipaddress.ip_address(address)
    return any(client in ipaddress.ip_network(source, strict=False) for source in spec.maintenance.allowed)


def instead(spec: SiteSpec) -> SiteSpec:
    """Return the site with status 503 as its only content, for OpenLiteSpeed, which has no directives for a page.

    The site is unchanged without maintenance. Raises NotExpressible if the maintenance page has allowed addresses.
    """
    if spec.maintenance is None:
        return spec
    if spec.maintenance.allowed:
        message = (
            "OpenLiteSpeed cannot let some client addresses pass the maintenance page; remove the allowed addresses"
        )
        raise NotExpressible(f"{_FIELD}/allowed", message)
    return replace(spec, blocks=tuple(_bare(block) for block in spec.blocks))


def _bare(block: ServerBlock) -> ServerBlock:
    kept = tuple(item for item in block.locations if item.pattern == challenges.PREFIX)
    status = Location("", "/", "return", return_code=STATUS)
    return replace(block, locations=(*kept, status), rewrites=(), try_files=(), error_pages=(), snippet="")
