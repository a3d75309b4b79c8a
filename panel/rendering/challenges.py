"""ACME HTTP-01 challenges (RFC 8555 section 8.3): the location that serves them in every server block of a site.

The location is an ordinary one that files are served from, so each engine renders it as it renders the site's own. It
stands before redirects, rewrites, access control, and proxies. Its files come and go without a reload.
"""

from __future__ import annotations

from dataclasses import replace

from panel.rendering.spec import Location, ServerBlock, SiteSpec

PREFIX = "/.well-known/acme-challenge/"
PATHS = r"^/\.well-known/acme-challenge/[A-Za-z0-9_-]+$"  # of challenges, as a regular expression
FOLDER = "_acme-challenge"  # no site has this name, so no site's own folder does


def folder_of(config_root: str) -> str:
    """Where the files of challenges lie on a host: the agent's own folder, which web servers may read."""
    return f"{config_root.rstrip('/')}/paddock/{FOLDER}"


def location(folder: str) -> Location:
    return Location("^~", PREFIX, "static", alias=f"{folder}/")


def served(spec: SiteSpec) -> SiteSpec:
    """The site with the location in each block; as it is when no challenges are to be served."""
    if not spec.challenge_folder:
        return spec
    return replace(spec, blocks=tuple(_block(block, spec.challenge_folder) for block in spec.blocks))


def alone(block: ServerBlock, folder: str) -> ServerBlock:
    """The same listeners and names with nothing but challenges: what a redirect to HTTPS leaves on plain HTTP."""
    return ServerBlock(block.listens, block.names, locations=(location(folder),))


def _block(block: ServerBlock, folder: str) -> ServerBlock:
    """A location of the site's own for the same paths gives way, at its place, so that pointers to others hold."""
    places = [number for number, item in enumerate(block.locations) if _is_same(item)]
    locations = list(block.locations)
    if places:
        locations[places[0]] = location(folder)
    else:
        locations.append(location(folder))
    return replace(block, locations=tuple(locations))


def _is_same(item: Location) -> bool:
    return item.match in ("", "^~") and item.pattern == PREFIX
