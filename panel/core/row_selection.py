"""Selection of rows in a list, also on its other pages: pass the selected rows on to the page of an action."""

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

# Web servers in front of the panel accept URLs of 8 KB by default; longer selections are kept in the session.
LONGEST_QUERY = 4000
# Django accepts 1000 fields per form.
MOST = 900
_KEPT = "ticked"


def go_on(request: Request, url: str, field: str, values: Iterable[str]) -> HttpResponse:
    """Redirect to `url`, and pass the selected values; `ticked(request, field)` returns them in the view of `url`."""
    chosen = list(values)
    query = urlencode([(field, value) for value in chosen])
    if len(query) > LONGEST_QUERY:
        key = get_random_string(12)
        request.session[_KEPT] = {"key": key, "values": chosen}
        query = urlencode({_KEPT: key})
    return redirect(f"{url}?{query}")


def ticked(request: Request, field: str) -> list[str]:
    """Return the selected values that `go_on` passed to this request; [] if a later selection replaced them."""
    key = request.GET.get(_KEPT)
    if key is None:
        return request.GET.getlist(field)
    kept: dict[str, Any] = request.session.get(_KEPT) or {}
    return list(kept["values"]) if kept.get("key") == key else []


def can_select_all(page: Page[Any]) -> bool:
    """Return whether the list has more than one page, and at most MOST rows, so that all rows can be selected
    at once.
    """
    return page.paginator.num_pages > 1 and page.paginator.count <= MOST


def the_others(request: Request, page: Page[Any], field: str) -> HttpResponse | None:
    """Render selected checkboxes for the rows on all other pages of the list. Return None if the request lacks
    `?others`, or if `can_select_all` is false.
    """
    if "others" not in request.GET or not can_select_all(page):
        return None
    here = {row.pk for row in page.object_list}
    fits = cast("QuerySet[Any]", page.paginator.object_list)
    names = [name for pk, name in fits.values_list("pk", "name") if pk not in here]
    return render(request, "components/other_ticks.html", {"field": field, "names": names})
