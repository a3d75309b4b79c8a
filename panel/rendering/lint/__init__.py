"""Find known mistakes that a server accepts: the problem, the reason, and the fix. The functions access no database.

`findings` checks a frozen site. A finding's `apply_fix` changes the site's definition (websites.services.site_define),
in which blocks and locations have the same indexes.
"""

from __future__ import annotations

from collections.abc import Collection

from panel.rendering.lint import access, expressions, model, raw, reach, rewrites, start
from panel.rendering.lint.finding import Finding, Socket
from panel.rendering.spec import SiteSpec, WebServerSpec

__all__ = ["Finding", "Socket", "findings"]


def findings(spec: SiteSpec, web_server: WebServerSpec, defaults: Collection[Socket] = ()) -> list[Finding]:
    """Return the findings of a site: those about its upstreams and PHP pools, then those of each server block and its
    locations.

    `defaults`: (address, port) pairs for which other sites of the web server are the default server.
    """
    found = list(start.of_site(spec, web_server))
    known = set(defaults)
    for number, block in enumerate(spec.blocks):
        where = f"blocks/{number}"
        found += start.of_block(block, where)
        found += model.of_block(block, where, known)
        known |= {(listen.address, listen.port) for listen in block.listens}  # report each socket once
        found += rewrites.of(block, block, where)
        found += expressions.of_block(block, where)
        found += reach.of_block(block, where)
        found += raw.of_block(block, where, web_server.engine)
        for position, location in enumerate(block.locations):
            place = f"{where}/locations/{position}"
            found += model.of_location(block, location, place)
            found += rewrites.of(block, location, place)
            found += access.of_location(location, place)
            found += expressions.of_location(location, place)
            found += raw.of_location(block, location, place, web_server.engine)
    return found
