"""Which location answers? Worked out from the drafts, with the other sites of the server taking part."""

from __future__ import annotations

from panel.hosts.models import EngineInstall
from panel.rendering.errors import NotExpressible
from panel.rendering.explain import Explanation, Request, explain
from panel.rendering.pcre import Unusable
from panel.rendering.spec import SiteSpec
from panel.websites import freeze
from panel.websites.models import Site


def _neighbours(site: Site, install: EngineInstall, port: int) -> list[Site]:
    """The sites that take part: those that are enabled on its server and port."""
    rows = Site.objects.filter(install=install, enabled=True, blocks__listens__port=port).exclude(pk=site.pk)
    return list(freeze.with_parts(rows.distinct()))


def explained(site: Site, install: EngineInstall, question: Request) -> Explanation:
    """Raises NotExpressible for expressions that only the server itself can read, or that take too long."""
    sites = [freeze.fetched(site), *_neighbours(site, install, question.port)]
    specs = [freeze.spec_of_fetched(item, install) for item in sites]
    try:
        return explain(specs, question)
    except Unusable as error:
        if error.pattern in _expressions(specs[0]):
            raise
        # It may be another team's: that is not shown.
        raise NotExpressible("/", "A server name of another site on this server cannot be evaluated.") from error


def _expressions(spec: SiteSpec) -> set[str]:
    """The regular expressions of the site itself."""
    found = {name.removeprefix("~") for block in spec.blocks for name in block.names}
    for block in spec.blocks:
        found |= {item.pattern for item in block.rewrites}
        for location in block.locations:
            found |= {location.pattern, *(item.pattern for item in location.rewrites)}
    return found
