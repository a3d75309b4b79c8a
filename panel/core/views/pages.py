"""Pages that belong to no single app: dashboard, search, help, health, and error pages."""

from __future__ import annotations

import sys

from django.contrib.auth.decorators import login_not_required, login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_safe

from panel.core import database
from panel.core.http import Request
from panel.core.middleware import current_request_id
from panel.core.views.dashboard import dashboard_context
from panel.core.views.search import MIN_LENGTH, search_all, search_pages


@login_required
@require_safe
def dashboard(request: Request) -> HttpResponse:
    """Show alerts first, then figures; in an empty panel, the first steps."""
    return render(request, "core/dashboard.html", dashboard_context(request.user))


@login_required
@require_safe
def search(request: Request) -> HttpResponse:
    """Search all objects; the command palette requests only the list of results."""
    words = request.GET.get("q", "").strip()[:100]
    groups = [*search_all(request.user, words), *search_pages(request.user, words)]
    context = {"q": words, "groups": groups, "is_short": len(words) < MIN_LENGTH}
    is_part = request.htmx and request.htmx.target == "palette-results"
    return render(request, "core/search_results.html" if is_part else "core/search.html", context)


@login_required
@require_safe
def help_page(request: Request) -> HttpResponse:
    return render(request, "core/help.html")


@login_not_required
@never_cache
@require_GET
def health(request: HttpRequest) -> JsonResponse:
    """Return the panel's status for load balancers and monitors: 200 while the database responds, 503 otherwise."""
    if not database.answers():
        return JsonResponse({"status": "database unavailable"}, status=503)
    return JsonResponse({"status": "ok"})


def _error(request: HttpRequest, status: int, title: str, detail: str) -> HttpResponse:
    context = {"status": status, "title": title, "detail": detail, "request_id": current_request_id()}
    return render(request, "error.html", context, status=status)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _error(request, 400, _("The panel cannot read this request"), _("Go back, check your input, and try again."))


def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    detail = str(exception or "") or _("Your role does not allow this action. Ask an administrator.")
    return _error(request, 403, _("Permission denied"), detail)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    detail = _(
        "Your session was renewed or your browser blocks cookies. Go back, reload the page, and submit the form again."
    )
    return _error(request, 403, _("This form has expired"), detail)


def page_not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    detail = _("The page may have been deleted or renamed, or it belongs to a team that you are not in.")
    return _error(request, 404, _("Not found"), detail)


def server_error(request: HttpRequest) -> HttpResponse:
    """Render an error page without database and session, because one of these could be the cause of the error.

    The page suggests a retry (503) if the database is unavailable.
    """
    status = 503 if database.is_away(sys.exc_info()[1]) else 500
    context = {"request_id": current_request_id(), "status": status}
    answer = render(None, "500.html", context, status=status)
    if status == 503:
        answer["Retry-After"] = str(database.RETRY_AFTER_S)
    return answer
