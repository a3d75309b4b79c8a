"""Explanations for the page “Which location?”, computed from the drafts of all sites on a web server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from panel.hosts.models import WebServer
from panel.rendering.errors import NotExpressible
from panel.rendering.explain import Explanation, Request, Step, explain
from panel.rendering.pcre import Unusable
from panel.rendering.spec import SiteSpec
from panel.rendering.unread import deciding
from panel.websites import freeze
from panel.websites.models import Site

NOT_EVALUATED = "Paddock does not evaluate raw directives. Send the request to the web server to be sure."


def _neighbours(site: Site, web_server: WebServer, port: int) -> list[Site]:
    """Return the other enabled sites of the web server that listen on `port`, because they take part in the choice of a
    server block.
    """
    rows = Site.objects.filter(web_server=web_server, enabled=True, blocks__listens__port=port).exclude(pk=site.pk)
    return list(freeze.with_parts(rows.distinct()))


def explained(site: Site, web_server: WebServer, question: Request) -> Explanation:
    """Explain which server block and location handle a request to the site.

    Raises NotExpressible if the panel cannot evaluate a regular expression, or if the evaluation takes too long.
    """
    sites = [freeze.fetched(site), *_neighbours(site, web_server, question.port)]
    specs = [freeze.spec_of_fetched(item, web_server) for item in sites]
    try:
        return _with_raw(specs, explain(specs, question), web_server.engine)
    except Unusable as error:
        if error.pattern in _expressions(specs[0]):
            raise
        # The name may belong to another team, so it is not shown.
        raise NotExpressible(
            "/", "Paddock cannot evaluate a server name of another site on this web server."
        ) from error


def _expressions(spec: SiteSpec) -> set[str]:
    """Return the regular expressions of one site: in names, rewrites and locations."""
    found = {name.removeprefix("~") for block in spec.blocks for name in block.names}
    for block in spec.blocks:
        found |= {item.pattern for item in block.rewrites}
        for location in block.locations:
            found |= {location.pattern, *(item.pattern for item in location.rewrites)}
    return found


def _with_raw(specs: Sequence[SiteSpec], found: Explanation, engine: str) -> Explanation:
    """Add last steps to an explanation: raw directives of the chosen server block and locations that can change the
    result.

    Paddock does not evaluate raw directives.
    """
    steps = []
    for spec in specs:
        if spec.name != found.site or not found.block:
            continue
        block = spec.blocks[int(found.block.split("/")[2])]
        inside = [location for number, location in enumerate(block.locations) if _is_chosen(found, number)]
        places = [("server block", block.snippet), *(("location", location.snippet) for location in inside)]
        for place, text in places:
            if names := deciding(text, engine):
                steps.append(
                    Step(
                        "raw",
                        f"Raw directives of the {place} can change this result: {', '.join(names)}.",
                        (NOT_EVALUATED,),
                    )
                )
    return replace(found, steps=(*found.steps, *steps))


def _is_chosen(found: Explanation, number: int) -> bool:
    return found.location == f"{found.block}/locations/{number}"
