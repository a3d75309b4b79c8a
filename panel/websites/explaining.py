"""Which location answers? Worked out from the drafts, with the other sites of the server taking part."""

from __future__ import annotations

from panel.hosts.models import EngineInstall
from panel.rendering.explain import Explanation, Request, explain
from panel.websites import freeze
from panel.websites.models import Site


def _neighbours(site: Site, install: EngineInstall, port: int) -> list[Site]:
    """The sites that take part: those that are enabled on its server and port."""
    rows = Site.objects.filter(install=install, enabled=True, blocks__listens__port=port).exclude(pk=site.pk)
    return list(freeze.with_parts(rows.distinct()))


def explained(site: Site, install: EngineInstall, question: Request) -> Explanation:
    """Raises NotExpressible for expressions that only the server itself can read."""
    sites = [freeze.fetched(site), *_neighbours(site, install, question.port)]
    return explain([freeze.spec_of_fetched(item, install) for item in sites], question)
