"""Notes about differences between a site's settings and what its web server can do, shown next to the form's fields."""

from __future__ import annotations

from collections.abc import Iterable

from panel.hosts.models import WebServer
from panel.rendering.capabilities import Difference, differences
from panel.websites import freeze, web_server_specs
from panel.websites.models import Location, ServerBlock, Site

# Fields of SiteSpec with another name in the form.
_FIELDS = {
    "tls": "certificate",
    "basic_auth": "basic_auth_realm",
    "rate_limit": "rate_limit_rps",
    "cache": "cache_times",
    "client_certificates": "client_verify",
}
Notes = dict[str, list[str]]


def words(difference: Difference, web_server: WebServer) -> str:
    """Describe a difference: what the web server cannot do, and the configuration that Paddock renders instead."""
    nearest = f"; alternative: {difference.nearest}" if difference.nearest else ""
    return f"{web_server.get_engine_display()}: {difference.what}{nearest}"


def site_differences(site: Site, web_server: WebServer) -> list[Difference]:
    fetched = freeze.fetched(site)
    spec = freeze.spec_of_fetched(fetched, web_server)
    return differences(spec, web_server_specs.web_server_spec_for(fetched, web_server, spec))


def notes_for(site: Site, *, block: ServerBlock | None = None, location: Location | None = None) -> Notes:
    """Return notes about a saved server block or location: {field name: notes}; {} for a site without a web server.

    Notes that concern no single field have the key `other`. An unsaved server block or location (None) has no notes.
    """
    part = location or block
    if site.web_server is None or part is None:
        return {}
    return _by_field(site_differences(site, site.web_server), site.web_server, _place(site, part))


def _place(site: Site, part: ServerBlock | Location) -> str:
    """Return the JSON pointer of a server block or location in the SiteSpec of its site."""
    block = part.block if isinstance(part, Location) else part
    place = f"/blocks/{list(site.blocks.values_list('pk', flat=True)).index(block.pk)}/"
    if isinstance(part, Location):
        place += f"locations/{list(block.locations.values_list('pk', flat=True)).index(part.pk)}/"
    return place


def _by_field(found: Iterable[Difference], web_server: WebServer, place: str) -> Notes:
    notes: Notes = {}
    for difference in found:
        if not f"{difference.field}/".startswith(place):
            continue
        member = difference.field.removeprefix(place).split("/")[0]
        if member == "locations":
            continue  # shown with the location itself
        name = "other" if member in ("", "snippet") else _FIELDS.get(member, member)
        notes.setdefault(name, []).append(words(difference, web_server))
    return notes
