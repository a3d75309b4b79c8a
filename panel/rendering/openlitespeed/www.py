"""Handle NAME and www.NAME, which are one name for OpenLiteSpeed (VHostMap::mapDomainList removes `www.`).

If they belong to two server blocks, one virtual host must serve both. Usually one block only redirects to the other;
its redirect then becomes a rule of the other's virtual host, conditional on the Host header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from panel.rendering.spec import ServerBlock

_PREFIX = "www."


def _pairs(names: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str, str]]:
    """Yield (key of the server block with NAME, key of the block with www.NAME, NAME) for each pair."""
    owners = {name: key for key, own in names.items() for name in own}
    for name, key in owners.items():
        other = owners.get(name.removeprefix(_PREFIX))
        if name.startswith(_PREFIX) and other is not None and other != key:
            yield other, key, name.removeprefix(_PREFIX)


def only_redirects(source: ServerBlock) -> bool:
    """Return whether the server block only redirects visitors: it has one location, a redirect, and no rewrites."""
    places = source.locations
    redirects = [place.handler == "return" and 300 <= (place.return_code or 0) < 400 for place in places]
    return len(places) == 1 and all(redirects) and not source.rewrites and not source.redirect_to_https


def left_out(blocks: Mapping[str, ServerBlock]) -> set[tuple[str, str]]:
    """Return (virtual host, name) pairs that listeners must not map, because another virtual host serves the name.

    `blocks` maps the names of virtual hosts to server blocks.
    """
    names = {host: source.names for host, source in blocks.items()}
    found: set[tuple[str, str]] = set()
    for bare, prefixed, name in _pairs(names):
        loses_bare = only_redirects(blocks[bare]) and not only_redirects(blocks[prefixed])
        found.add((bare, name) if loses_bare else (prefixed, _PREFIX + name))
    return found


def taken_over(blocks: tuple[ServerBlock, ...], number: int) -> list[tuple[int, str]]:
    """Return (block number, pattern of Host headers) pairs of the server blocks that only redirect and whose names
    server block `number` serves too.
    """
    hosts = {str(n): block for n, block in enumerate(blocks)}
    found: dict[int, list[str]] = {}
    for host, name in sorted(left_out(hosts)):
        other = name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else _PREFIX + name
        if other in blocks[number].names and int(host) != number and only_redirects(blocks[int(host)]):
            found.setdefault(int(host), []).append(re.escape(name))
    return [(n, rf"^(?:{'|'.join(names)})\.?(?::|$)") for n, names in found.items()]
