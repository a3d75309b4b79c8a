"""What a site's server cannot say or says otherwise, for showing beside the fields."""

from __future__ import annotations

from panel.websites.models import Location, ServerBlock, Site


def notes_for(
    site: Site, *, block: ServerBlock | None = None, location: Location | None = None
) -> dict[str, list[str]]:
    """Remarks by field name for one block or location as it is saved now; empty without a server."""
    return {}
