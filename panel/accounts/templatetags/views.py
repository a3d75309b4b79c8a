"""Template tag that shows saved views next to a list's filters."""

from __future__ import annotations

from django import template
from django.http import HttpRequest
from django.template.context import RequestContext

from panel.accounts.models import SavedView
from panel.accounts.selectors import saved_views_of
from panel.accounts.services.saved_views import essence

register = template.Library()


@register.inclusion_tag("components/saved_views.html", takes_context=True)
def saved_views(context: RequestContext, may_clear: bool = False) -> dict[str, object]:
    """Render the user's saved views of the current list, and a form to save the current filter.

    With `may_clear`, a link that clears the current filter is shown too.
    """
    request: HttpRequest = context["request"]
    page = request.resolver_match.view_name if request.resolver_match else ""
    query = essence(request.META.get("QUERY_STRING", ""))
    views = saved_views_of(request.user).filter(page=page) if page in SavedView.Page.values else []
    current = next((view for view in views if view.query == query), None)
    return {
        "request": request,
        "page": page,
        "query": query,
        "views": views,
        "current": current,
        "may_clear": may_clear,
        "may_save": page in SavedView.Page.values and bool(query) and current is None,
    }
