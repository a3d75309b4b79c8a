"""Response statuses that a site's configuration asks for, for example 403 for a denied path. Such a response never
counts as a failure, even if the response was better before. Pure functions.
"""

from __future__ import annotations

from panel.rendering import maintenance
from panel.rendering.errors import NotExpressible
from panel.rendering.explain import Request, explain
from panel.rendering.spec import Listen, Location, ServerBlock, SiteSpec

NO_CERTIFICATE = 400  # of a server block that requires a client's certificate; probes send none


def intended(spec: SiteSpec, number: int, listen: Listen, host: str, path: str) -> tuple[int, ...]:
    """Return the statuses that server block `number` is configured to return for a request, for example (403,) for a
    denied path. () if no status is configured, or if the configuration cannot be explained.
    """
    block = spec.blocks[number]
    if listen.tls and requires_certificate(block):
        return (NO_CERTIFICATE,)
    if spec.maintenance is not None:
        return (maintenance.STATUS,)
    if not _asks_for_something(block, listen):
        return ()
    scheme = "https" if listen.tls else "http"
    try:
        found = explain([spec], Request(scheme, host, listen.port, path, listen.address))  # type: ignore[arg-type]
    except NotExpressible:
        return ()
    statuses = {found.outcome.status} if found.outcome.kind in ("deny", "return") and found.outcome.status else set()
    if found.location.startswith(f"/blocks/{number}/locations/"):
        statuses |= _of_location(block.locations[int(found.location.rpartition("/")[2])])
    for page in block.error_pages:
        if page.response and statuses & set(page.codes):
            statuses.add(page.response)
    return tuple(sorted(statuses))


def requires_certificate(block: ServerBlock) -> bool:
    """Return whether a server block refuses TLS requests without a client certificate."""
    return block.client_certificates is not None and block.client_certificates.required


def _asks_for_something(block: ServerBlock, listen: Listen) -> bool:
    if (block.redirect_to_https and not listen.tls) or block.rewrites:
        return True
    return any(item.handler in ("deny", "return") or item.rewrites or _of_location(item) for item in block.locations)


def _of_location(location: Location) -> set[int]:
    found = {401} if location.basic_auth else set()
    if location.access_rules:
        found.add(403)
    if location.rate_limit or location.connection_limit:
        found |= {429, 503}
    return found
