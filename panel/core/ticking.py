"""Rows that were ticked in a list, on their way to a page that asks what is to be done with them; and rows beyond the
list's page, ticked with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django.core.paginator import Page
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.crypto import get_random_string
from django.utils.http import urlencode

from panel.core.http import Request

# Web servers in front of the panel take addresses of 8 KB by default; what is longer is kept in the session.
LONGEST_QUERY = 4000
# A form's fields that Django takes are 1000.
MOST = 900
_KEPT = "ticked"


def go_on(request: Request, url: str, field: str, values: Iterable[str]) -> HttpResponse:
    """Leads to the page at `url`, which finds the values by `ticked(request, field)`."""
    chosen = list(values)
    query = urlencode([(field, value) for value in chosen])
    if len(query) > LONGEST_QUERY:
        key = get_random_string(12)
        request.session[_KEPT] = {"key": key, "values": chosen}
        query = urlencode({_KEPT: key})
    return redirect(f"{url}?{query}")


def ticked(request: Request, field: str) -> list[str]:
    """What the page is asked about. None when it is kept no more: later ones took its place."""
    key = request.GET.get(_KEPT)
    if key is None:
        return request.GET.getlist(field)
    kept: dict[str, Any] = request.session.get(_KEPT) or {}
    return list(kept["values"]) if kept.get("key") == key else []


def can_tick_all(page: Page[Any]) -> bool:
    """Whether there is more that fits than stands on this page, and not too much of it."""
    return page.paginator.num_pages > 1 and page.paginator.count <= MOST


def the_others(request: Request, page: Page[Any], field: str) -> HttpResponse | None:
    """The boxes of what fits and stands on other pages, ticked, when they are asked for (`?others`)."""
    if "others" not in request.GET or not can_tick_all(page):
        return None
    here = {row.pk for row in page.object_list}
    fits = cast("QuerySet[Any]", page.paginator.object_list)
    names = [name for pk, name in fits.values_list("pk", "name") if pk not in here]
    return render(request, "components/other_ticks.html", {"field": field, "names": names})
