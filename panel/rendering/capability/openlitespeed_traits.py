"""Traits of sites on which differences of OpenLiteSpeed from nginx depend."""

from __future__ import annotations

from collections.abc import Iterable

from panel.rendering import reach, variables
from panel.rendering.apache.rewrites import are_used
from panel.rendering.capability import Context
from panel.rendering.choice import choose
from panel.rendering.errors import NotExpressible
from panel.rendering.locations import locations_of
from panel.rendering.openlitespeed import answers, asides, formats, indexes, plain_scripts, ruled
from panel.rendering.rewriting import redirects
from panel.rendering.spec import Location, ServerBlock


def has_only_www(context: Context) -> bool:
    """Return whether a server block has the name www.NAME without NAME."""
    blocks = context.spec.blocks
    return any(name.startswith("www.") and name[4:] not in block.names for block in blocks for name in block.names)


def runs_php(context: Context) -> bool:
    owners = context.block.locations if context.block else ()
    return any(location.handler == "php" for location in owners)


def runs_everywhere(context: Context) -> bool:
    block = context.block
    return block is not None and runs_php(context) and plain_scripts.runs_anyway(block, context.owner)


def redirects_first(context: Context) -> bool:
    """Return whether OpenLiteSpeed redirects to some folders of the location before access control."""
    block = context.block
    ruled_all = block is not None and asides.has_own(context.owner, block) and not are_used(block)
    return context.owner.handler == "static" and not (ruled_all and block and formats.origin(block))


def of_indexes(context: Context) -> list[Location]:
    """Return the locations whose index files OpenLiteSpeed sends with the settings of another location.

    The other location is the one that handles the folder of the index file.
    """
    if context.block is None:
        return []
    try:
        found = locations_of(context.block, "")
    except NotExpressible:
        return []
    kept = [
        others
        for folder, others in reach.by_index(context.block, found).items()
        if indexes.keeps_path(context.block, folder)
    ]
    return [place.location for others in kept for place in others if place]


def holds_an_index(context: Context) -> bool:
    return any(location is context.owner for location in of_indexes(context))


def may_be_a_folders(context: Context) -> bool:
    """Return whether the location can match folders whose index files belong to another location or to none."""
    source = context.owner
    if source.handler != "static":
        return False
    if source.match in ("~", "~*", "="):
        return bool(source.match != "=" or source.pattern.endswith("/"))
    return any(location is not source for location in of_indexes(context))


def several_pools(context: Context) -> bool:
    owners = context.block.locations if context.block else ()
    return len({location.php_pool for location in owners if location.handler == "php"}) > 1


def mixed_rules(context: Context) -> bool:
    """Return whether the location has both allow and deny rules, besides a final rule for `all`. OpenLiteSpeed ignores
    the order of such rules.
    """
    rules = context.owner.access_rules
    before = rules[:-1] if rules[-1].source == "all" else rules
    return len({rule.action for rule in before}) > 1


def plain_text(context: Context) -> bool:
    return any(not listen.tls for listen in context.owner.listens)


def proxies(locations: Iterable[Location]) -> bool:
    return any(location.handler == "proxy" for location in locations)


def ends_in_status(owner: Location | ServerBlock, inside: ServerBlock | None) -> bool:
    """Return whether try_files ends in a status that OpenLiteSpeed sends by a rewrite rule of the virtual host, not by
    a context.
    """
    if not owner.try_files or not owner.try_files[-1].startswith("="):
        return False
    source = owner if isinstance(owner, Location) else Location("", "/", "static", try_files=owner.try_files)
    return inside is None or int(owner.try_files[-1][1:]) not in asides.statuses(source, inside)


def is_by_rule(location: Location, inside: ServerBlock | None) -> bool:
    """Return whether a rewrite rule of the virtual host handles some or all requests of the location before a context
    is chosen.
    """
    if any(redirects(item) for item in location.rewrites) or ends_in_status(location, inside):
        return True
    if inside is not None and ruled.is_here(location, inside):
        return any(item.flag == "break" for item in location.rewrites)
    if location.handler == "proxy":
        return bool(location.proxy_uri) or any(item.flag == "break" for item in location.rewrites)
    return location.handler == "return" and not answers.is_file(location)


def answers_itself(location: Location) -> bool:
    return location.handler == "return" and bool(location.return_value)


def leads_to_itself(context: Context) -> bool:
    """Return whether the location redirects to a path that it handles itself."""
    path, block = context.owner.return_value.partition("?")[0], context.block
    if block is None or not path.startswith("/"):
        return False
    try:
        place = choose(locations_of(block, ""), path).place
    except NotExpressible:
        return True
    return "$" in path or (place is not None and place.location is context.owner)


def is_of_request(context: Context) -> bool:
    """Return whether the header is a request header for an upstream."""
    places = context.block.locations if context.block else ()
    return any(header is context.owner for place in places for header in place.request_headers)


def parts(value: str) -> tuple[variables.Part, ...]:
    try:
        return variables.parse(value, "")
    except NotExpressible:
        return ("",)
