"""Pages of previews: start, progress and result, cancel."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.core.views.jobs import job_context
from panel.deployments.selectors import deployments_visible, is_whole_visible
from panel.deployments.views.deployments import crumbs
from panel.previews import services
from panel.previews.job_kinds import JOB
from panel.previews.selectors import previews_visible


@require_POST
def request_preview(request: Request, uuid: UUID) -> HttpResponse:
    """Start a preview of a plan, and redirect to its page."""
    plan = get_object_or_404(deployments_visible(request.user), uuid=uuid)
    if not is_whole_visible(request.user, plan):
        raise Http404
    try:
        preview = services.preview_request(actor=request.user, deployment=plan)
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("deployments:detail", uuid)
    return redirect("previews:detail", preview.uuid)


@require_safe
def detail(request: Request, uuid: UUID) -> HttpResponse:
    preview = get_object_or_404(previews_visible(request.user), uuid=uuid)
    plan = reverse("deployments:detail", args=[preview.deployment.uuid])
    way = crumbs(Crumb(_("Plan"), plan))
    context = {"preview": preview, "plan_url": plan, "crumbs": way, **job_context(JOB, preview, request.user)}
    return render(request, "previews/detail.html", context)


@require_POST
def cancel(request: Request, uuid: UUID) -> HttpResponse:
    preview = get_object_or_404(previews_visible(request.user), uuid=uuid)
    try:
        services.preview_cancel(actor=request.user, preview=preview)
    except ApplicationError as error:
        messages.error(request, error.message)
    return redirect("previews:detail", uuid)
