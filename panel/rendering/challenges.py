"""Add ACME challenges to every server block of a site. Challenge files can change without a reload.

HTTP-01 (RFC 8555 section 8.3) uses an ordinary location for files, so each engine renders this location like the site's
own. The location comes before redirects, rewrites, access control, and proxies.

TLS-ALPN-01 (RFC 8737) is available with gallop, which responds to handshakes of certificate authorities. Blocks without
TLS get a listener that rejects all other handshakes.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from dataclasses import replace

from panel.rendering.spec import Listen, Location, ServerBlock, SiteSpec

PREFIX = "/.well-known/acme-challenge/"
PATHS = r"^/\.well-known/acme-challenge/[A-Za-z0-9_-]+$"  # regular expression for the paths of challenges
FOLDER = "_acme-challenge"  # no site has this name, so no site's own folder does


def folder_of(config_root: str) -> str:
    """Return the folder of challenge files on a host. It belongs to the agent, and web servers can read it."""
    return f"{config_root.rstrip('/')}/paddock/{FOLDER}"


def tls_name(name: str) -> str:
    """Return the name that a certificate authority sends in the handshake for a domain name or an IP address.

    For an IP address this is its reverse DNS name (RFC 8738 section 6).
    """
    try:
        return ipaddress.ip_address(name).reverse_pointer
    except ValueError:
        return name.lower()


def tls_file(name: str) -> str:
    """Return the name of the file from which gallop reads the key authorization for `name` (a `tls_name`)."""
    return base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()).decode().rstrip("=")


def without(spec: SiteSpec) -> SiteSpec:
    """Return the site without ACME challenges."""
    return replace(spec, challenge_folder="", tls_challenge_port=0)


def shows_over_tls(spec: SiteSpec) -> bool:
    """Return whether the site proves its names over TLS (TLS-ALPN-01), on web servers that support this challenge."""
    return bool(spec.challenge_folder and spec.tls_challenge_port)


def with_tls_listener(block: ServerBlock, port: int) -> ServerBlock:
    """Return the server block with a TLS listener for challenges on each of its addresses; unchanged if it has TLS."""
    if not block.listens or any(listen.tls for listen in block.listens):
        return block
    addresses = dict.fromkeys(listen.address for listen in block.listens)
    return replace(block, listens=(*block.listens, *(Listen(port, address, tls=True) for address in addresses)))


def location(folder: str) -> Location:
    return Location("^~", PREFIX, "static", alias=f"{folder}/")


def served(spec: SiteSpec) -> SiteSpec:
    """Return the site with the challenge location in each server block; unchanged if the site serves no challenges."""
    if not spec.challenge_folder:
        return spec
    return replace(spec, blocks=tuple(_block(block, spec.challenge_folder) for block in spec.blocks))


def alone(block: ServerBlock, folder: str) -> ServerBlock:
    """Return a server block with the listeners and names of `block`, and only the challenge location.

    Such a block serves plain HTTP for a block that redirects to HTTPS.
    """
    return ServerBlock(block.listens, block.names, locations=(location(folder),))


def _block(block: ServerBlock, folder: str) -> ServerBlock:
    """Return the server block with the challenge location.

    If the site has a location for the same paths, the challenge location takes its position in the list. So JSON
    pointers to other locations stay valid.
    """
    places = [number for number, item in enumerate(block.locations) if _is_same(item)]
    locations = list(block.locations)
    if places:
        locations[places[0]] = location(folder)
    else:
        locations.append(location(folder))
    return replace(block, locations=tuple(locations))


def _is_same(item: Location) -> bool:
    return item.match in ("", "^~") and item.pattern == PREFIX
