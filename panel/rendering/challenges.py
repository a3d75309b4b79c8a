"""ACME HTTP-01 challenges (RFC 8555 section 8.3): the location that serves them in every server block of a site.

The location is an ordinary location for files, so each engine renders it like the site's own. It comes before
redirects, rewrites, access control, and proxies. Its files can change without a reload.
"""

from __future__ import annotations

from dataclasses import replace

from panel.rendering.spec import Location, ServerBlock, SiteSpec

PREFIX = "/.well-known/acme-challenge/"
PATHS = r"^/\.well-known/acme-challenge/[A-Za-z0-9_-]+$"  # regular expression for the paths of challenges
FOLDER = "_acme-challenge"  # no site has this name, so no site's own folder does


def folder_of(config_root: str) -> str:
    """Folder of challenge files on a host: the agent's own folder, readable by web servers."""
    return f"{config_root.rstrip('/')}/paddock/{FOLDER}"


def location(folder: str) -> Location:
    return Location("^~", PREFIX, "static", alias=f"{folder}/")


def served(spec: SiteSpec) -> SiteSpec:
    """The site with the challenge location in each block; unchanged if no challenges are served."""
    if not spec.challenge_folder:
        return spec
    return replace(spec, blocks=tuple(_block(block, spec.challenge_folder) for block in spec.blocks))


def alone(block: ServerBlock, folder: str) -> ServerBlock:
    """The same listeners and names with only the challenge location, for plain HTTP of a block that
    redirects to HTTPS.
    """
    return ServerBlock(block.listens, block.names, locations=(location(folder),))


def _block(block: ServerBlock, folder: str) -> ServerBlock:
    """The block with the challenge location. It replaces a location of the site's own for the same paths in place, so
    that pointers to others stay valid.
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
