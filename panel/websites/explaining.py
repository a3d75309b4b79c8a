"""The page “Which location?”: computed from the drafts of all sites on the web server."""

from __future__ import annotations

from panel.hosts.models import WebServer
from panel.rendering.errors import NotExpressible
from panel.rendering.explain import Explanation, Request, explain
from panel.rendering.pcre import Unusable
from panel.rendering.spec import SiteSpec
from panel.websites import freeze
from panel.websites.models import Site


def _neighbours(site: Site, web_server: WebServer, port: int) -> list[Site]:
    """Enabled sites on the web server and port, which take part in the choice."""
    rows = Site.objects.filter(web_server=web_server, enabled=True, blocks__listens__port=port).exclude(pk=site.pk)
    return list(freeze.with_parts(rows.distinct()))


def explained(site: Site, web_server: WebServer, question: Request) -> Explanation:
    """Explanation of a request. Raises NotExpressible for expressions that only the server can evaluate, or that take
    too long.
    """
    sites = [freeze.fetched(site), *_neighbours(site, web_server, question.port)]
    specs = [freeze.spec_of_fetched(item, web_server) for item in sites]
    try:
        return explain(specs, question)
    except Unusable as error:
        if error.pattern in _expressions(specs[0]):
            raise
        # The name may belong to another team, so it is not shown.
        raise NotExpressible("/", "A server name of another site on this server cannot be evaluated.") from error


def _expressions(spec: SiteSpec) -> set[str]:
    """Regular expressions of the site itself."""
    found = {name.removeprefix("~") for block in spec.blocks for name in block.names}
    for block in spec.blocks:
        found |= {item.pattern for item in block.rewrites}
        for location in block.locations:
            found |= {location.pattern, *(item.pattern for item in location.rewrites)}
    return found
