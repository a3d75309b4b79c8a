"""Page “Which location?”, which computes the server block and location of a request from the drafts."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from panel.core.http import Request
from panel.rendering.errors import NotExpressible
from panel.rendering.explain import Explanation
from panel.websites.explaining import explained
from panel.websites.forms.explain import ExplainForm
from panel.websites.models import Site
from panel.websites.selectors import sites_visible
from panel.websites.views.base import site_get, site_render
from panel.websites.views.insight import web_server_wanted
from panel.websites.views.sites import urls_of


def _target_url(site: Site, found: Explanation) -> str:
    """Return the URL of the page of the server block or location that handles the request; "" if another site handles
    it.
    """
    if found.site != site.name or not found.block:
        return ""
    block = list(site.blocks.all())[int(found.block.split("/")[2])]
    place = found.location.split("/")
    locations = list(block.locations.all())
    # A block's own try_files appears as a location without a row.
    if len(place) < 5 or int(place[4]) >= len(locations):
        return reverse("websites:block", args=[site.name, block.pk])
    return reverse("websites:location", args=[site.name, locations[int(place[4])].pk])


@login_required
@require_safe
def explain(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name)
    web_server = web_server_wanted(request, site)
    form = ExplainForm(request.GET if "url" in request.GET else None)
    context: dict[str, object] = {"form": form, "web_server": web_server, "examples": urls_of(site)[:3]}
    if form.is_valid() and form.question is not None and web_server is not None:
        try:
            found = explained(site, web_server, form.question)
        except NotExpressible as error:
            form.add_error("url", error.message)
        else:
            context |= _answer(request, site, found)
    is_part = request.htmx and request.htmx.target == "answer"
    template = "websites/explain_part.html" if is_part else "websites/explain.html"
    return site_render(request, site, "explain", template, **context)


def _answer(request: Request, site: Site, found: Explanation) -> dict[str, object]:
    """Return the template context of an explanation. If a site that the user cannot see handles the request, the
    context contains only that fact.
    """
    if found.site and found.site != site.name and not sites_visible(request.user).filter(name=found.site).exists():
        return {"is_foreign": True}
    url = _target_url(site, found)
    return {"found": found, "target_url": url, "is_location": "/locations/" in url}
