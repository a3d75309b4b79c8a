"""Shared code of the pages of a site: lookup, permission, tabs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from django.contrib import messages
from django.core.paginator import Page
from django.db.models import Model, QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.accounts.permissions import Action, may, require
from panel.core import pages
from panel.core.http import Request
from panel.core.ui import Crumb, Tab, Text
from panel.websites.listing import sites_listed
from panel.websites.models import Site

PER_PAGE = 50
N = TypeVar("N", bound=Model)


def site_get(request: Request, name: str, action: Action = Action.VIEW) -> Site:
    """Return the site with the given name.

    Raises Http404 if the user cannot see the site, PermissionDenied if the user lacks the permission for `action`.
    """
    return named_get(request, sites_listed(request.user), name, action)


def named_get(request: Request, rows: QuerySet[N], name: str, action: Action) -> N:
    """Return the row of `rows` with the given name; `rows` are those that the user can see.

    Raises Http404 if no row has the name, PermissionDenied if the user lacks the permission for `action` in the row's
    team.
    """
    row = rows.filter(name=name).first()
    if row is None:
        raise Http404
    require(request.user, action, row.team)  # type: ignore[attr-defined] # each of these models has a team
    return row


def part_get(rows: QuerySet[Any], pk: int) -> Any:
    part: Model | None = rows.filter(pk=pk).first()
    if part is None:
        raise Http404
    return part


def page_of(
    request: Request, rows: QuerySet[Any], per_page: int = PER_PAGE, shown: QuerySet[Any] | None = None
) -> Page[Any]:
    return pages.page_of(rows, per_page, request.GET.get("page"), shown=shown)


# The sections of a site's pages, and the pages of each: the name of the URL, and the label. The section has the URL of
# its first page.
_SECTIONS = (
    (gettext_lazy("Overview"), (("websites:detail", gettext_lazy("Overview")),)),
    (
        gettext_lazy("Configuration"),
        (
            ("websites:blocks", gettext_lazy("Server blocks")),
            ("websites:php", gettext_lazy("PHP")),
            ("websites:upstreams", gettext_lazy("Upstreams")),
            ("websites:streams", gettext_lazy("Stream servers")),
            ("websites:tls", gettext_lazy("TLS")),
            ("websites:explain", gettext_lazy("Find location")),
            ("websites:raw", gettext_lazy("Rendered files")),
        ),
    ),
    (gettext_lazy("Content"), (("publishing:content", gettext_lazy("Content")),)),
    (
        gettext_lazy("Traffic"),
        (
            ("websites:requests", gettext_lazy("Requests")),
            ("websites:traffic", gettext_lazy("Counters")),
            ("websites:logs", gettext_lazy("Logs")),
        ),
    ),
    (
        gettext_lazy("Benchmarks"),
        (("websites:benchmarks", gettext_lazy("Runs")), ("websites:comparisons", gettext_lazy("Server comparison"))),
    ),
    (gettext_lazy("History"), (("websites:history", gettext_lazy("History")),)),
)


@dataclass(frozen=True)
class SiteTabs:
    """Tabs of a site's pages: the sections, and the pages of the current section if it has several. `section` and
    `page` are the labels of the current section and page.
    """

    sections: list[Tab]
    pages: list[Tab]
    section: Text = ""
    page: Text = ""

    @property
    def title(self) -> str:
        """End of the page's HTML title: the label of the current page; empty for the overview, whose title is only the
        site's name.
        """
        return "" if not self.page or self.sections[0].current else f": {self.page}"


def site_tabs(site: Site, current: str) -> SiteTabs:
    """Return the tabs for the page with the URL name `current` (without its app)."""
    sections: list[Tab] = []
    pages: list[Tab] = []
    section: Text = ""
    page: Text = ""
    for label, items in _SECTIONS:
        found = [Tab(name, reverse(url, args=[site.name]), url.partition(":")[2] == current) for url, name in items]
        here = [tab for tab in found if tab.current]
        sections.append(Tab(label, found[0].url, bool(here)))
        if here:
            section, page = label, here[0].label if len(found) > 1 else label
            pages = found if len(found) > 1 else []
    return SiteTabs(sections, pages, section, page)


def crumbs_below(site: Site) -> list[Crumb]:
    """Return the breadcrumbs of a page below the page of a site."""
    here = Crumb(site.name, reverse("websites:detail", args=[site.name]))
    return [Crumb(_("Sites"), reverse("websites:list")), here]


def saved(request: Request, to: str, site: Site, words: str) -> HttpResponse:
    """Show the success message `words`, and redirect to the site's page with the URL name `to`."""
    messages.success(request, words)
    return redirect(to, site.name)


def site_render(request: Request, site: Site, tab: str, template: str, **context: Any) -> HttpResponse:
    crumbs = [Crumb(_("Sites"), reverse("websites:list"))]
    status = context.pop("status_code", 200)
    base = {
        "site": site,
        "crumbs": crumbs,
        "site_tabs": site_tabs(site, tab),
        "may_change": may(request.user, Action.CHANGE, site.team),
        "may_deploy": may(request.user, Action.DEPLOY, site.team),
        "may_administer": may(request.user, Action.ADMINISTER),
    }
    return render(request, template, base | context, status=status)
