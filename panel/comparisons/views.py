"""Pages of server comparisons: a site's page with the form and earlier comparisons, progress and result of one
comparison, and the move.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.comparisons import results, selectors, services
from panel.comparisons.forms import ComparisonForm
from panel.comparisons.job_kinds import JOB
from panel.comparisons.models import UNDER_WAY, Comparison, Contender
from panel.core.errors import ApplicationError
from panel.core.forms import attempt, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.core.views.jobs import job_context
from panel.deployments.views.deployments import planned
from panel.websites.logs import site_logs
from panel.websites.models import Site
from panel.websites.views.base import page_of, site_get, site_render
from panel.websites.views.notes import site_differences, words

REPLAY_SHOWN = 20


def comparison_or_404(request: Request, uuid: UUID) -> Comparison:
    return get_object_or_404(selectors.comparisons_visible(request.user), uuid=uuid)


def contender_or_404(comparison: Comparison, position: int) -> Contender:
    found = next((row for row in comparison.contenders.all() if row.position == position), None)
    if found is None:
        raise Http404
    found.comparison = comparison
    return found


def crumbs(comparison: Comparison) -> list[Crumb]:
    name = comparison.original.name
    return [
        Crumb(_("Sites"), reverse("websites:list")),
        Crumb(name, reverse("websites:detail", args=[name])),
        Crumb(_("Server comparison"), reverse("websites:comparisons", args=[name])),
    ]


# --- a site's page ---


def _may_try(request: Request, site: Site) -> bool:
    return all(may(request.user, action, site.team) for action in (Action.CHANGE, Action.DEPLOY, Action.BENCHMARK))


@require_http_methods(["GET", "HEAD", "POST"])
def site_comparisons(request: Request, name: str) -> HttpResponse:
    """Show a site's page with the form that starts a comparison, and its earlier comparisons."""
    site = site_get(request, name)
    has_log = any(log.key.startswith("access_log") for log in site_logs(request.user, site))
    form = ComparisonForm(request.POST or None, user=request.user, site=site, has_log=has_log)
    if (
        request.method == "POST"
        and form.is_valid()
        and (comparison := attempt(form, lambda: _create(request, site, form)))
    ):
        return redirect("comparisons:detail", comparison.uuid)
    last = selectors.last_switch(site)
    context: dict[str, object] = {
        "form": form,
        "has_log": has_log,
        "candidates": [(web_server, _remarks(site, web_server)) for web_server in selectors.candidates(site)],
        "chosen": _chosen(form),
        "may_try": _may_try(request, site),
        "under_way": site.comparisons.filter(status__in=UNDER_WAY).first(),
        "page": page_of(request, selectors.comparisons_visible(request.user).filter(site=site)),
        "last": last,
        "status_code": form_status(form),
    }
    if last is not None:
        context |= {"gain": results.gain(last), "way_back": results.way_back(last)}
    return site_render(request, site, "comparisons", "comparisons/site.html", **context)


def _create(request: Request, site: Site, form: ComparisonForm) -> Comparison:
    services.require_comparison(request.user, site)
    chosen = form.frozen()
    web_servers = list(form.cleaned_data["web_servers"])
    return services.comparison_create(actor=request.user, site=site, web_servers=web_servers, **chosen._asdict())


def _remarks(site: Site, web_server: Any) -> list[str]:
    """Return notes about a web server that are known before the comparison: differences in behavior, and whether it is
    stopped.
    """
    found = [words(item, web_server) for item in site_differences(site, web_server)]
    if not web_server.is_running:
        text = _(
            "This web server is stopped. The comparison starts it with its current configuration and stops "
            "it afterwards."
        )
        return [text, *found]
    return found


def _chosen(form: ComparisonForm) -> set[str]:
    return {str(getattr(value, "pk", value)) for value in form["web_servers"].value() or []}


@require_safe
def replay(request: Request, name: str) -> HttpResponse:
    """Return, as HTML for the comparison form, the requests that a replay of the site's access log would send."""
    site = site_get(request, name)
    context: dict[str, object] = {}
    try:
        wanted = {box: request.GET.get(box) == "on" for box in ("queries", "other_methods")}
        found = services.replay_read(actor=request.user, site=site, **wanted)
    except ApplicationError as error:
        context["fault"] = error.message
    except PermissionDenied as error:
        context["fault"] = str(error)
    else:
        shares = results.shares(found.paths)
        context |= {"found": found, "shares": shares[:REPLAY_SHOWN], "more": max(len(shares) - REPLAY_SHOWN, 0)}
    return render(request, "comparisons/replay.html", context)


# --- one comparison ---


@require_safe
def detail(request: Request, uuid: UUID) -> HttpResponse:
    """Show the page of a comparison: its progress, or its result and the choice of a move."""
    comparison = comparison_or_404(request, uuid)
    team = comparison.original.team
    context = {
        "comparison": comparison,
        "crumbs": crumbs(comparison),
        "may_cancel": may(request.user, Action.BENCHMARK, team),
        "may_switch": may(request.user, Action.DEPLOY, team) and may(request.user, Action.CHANGE, team),
    }
    if not comparison.is_finished:
        return render(request, "comparisons/running.html", context | job_context(JOB, comparison, request.user))
    return render(
        request,
        "comparisons/result.html",
        context | job_context(JOB, comparison, request.user) | results.result(comparison),
    )


@require_POST
def cancel(request: Request, uuid: UUID) -> HttpResponse:
    comparison = comparison_or_404(request, uuid)
    try:
        services.comparison_cancel(actor=request.user, comparison=comparison)
    except ApplicationError as error:
        messages.error(request, error.message)
    return redirect("comparisons:detail", uuid)


@require_POST
def again(request: Request, uuid: UUID) -> HttpResponse:
    comparison = comparison_or_404(request, uuid)
    try:
        uuid = services.comparison_repeat(actor=request.user, comparison=comparison).uuid
    except ApplicationError as error:
        messages.error(request, error.message)
    return redirect("comparisons:detail", uuid)


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: Request, uuid: UUID) -> HttpResponse:
    comparison = comparison_or_404(request, uuid)
    site = comparison.original
    if request.method == "POST":
        try:
            services.comparison_delete(actor=request.user, comparison=comparison)
        except ApplicationError as error:
            messages.error(request, error.message)
            return redirect("comparisons:detail", uuid)
        messages.success(request, _("The server comparison was deleted."))
        return redirect("websites:comparisons", site.name)
    context = {
        "title": _("Delete this server comparison?"),
        "heading": _("Delete comparison"),
        "text": _("The site stays on its current web server."),
        "losses": [_("The metrics and charts of all web servers"), _("The load generator's output of every round")],
        "verb": _("Delete comparison"),
        "cancel_url": reverse("comparisons:detail", args=[uuid]),
        "crumbs": crumbs(comparison),
    }
    return render(request, "benchmarks/delete.html", context)


# --- the move ---


@require_http_methods(["GET", "HEAD", "POST"])
def switch(request: Request, uuid: UUID, position: int) -> HttpResponse:
    """Show a confirmation page; on POST, move the site to one of the compared web servers and verify the move in one
    step.
    """
    comparison = comparison_or_404(request, uuid)
    contender = contender_or_404(comparison, position)
    if request.method == "POST":
        try:
            accept = request.POST.get("accept_drift") == "on"
            services.comparison_switch(actor=request.user, contender=contender, accept_drift=accept)
        except ApplicationError as error:
            messages.error(request, error.message)
        return redirect("comparisons:detail", uuid)
    row = next(row for row in results.rows(comparison) if row.contender.pk == contender.pk)
    shown = zip(results.columns(comparison), row.cells, strict=False)
    context = {
        "comparison": comparison,
        "contender": contender,
        "now": comparison.original.web_server,
        "ratios": [(figure.label, cell.ratio) for figure, cell in shown if cell.ratio],
        "action": reverse("comparisons:switch", args=[uuid, position]),
        "plan_url": reverse("comparisons:switch-plan", args=[uuid, position]),
        "cancel_url": reverse("comparisons:detail", args=[uuid]),
        "crumbs": crumbs(comparison),
    }
    return render(request, "comparisons/switch.html", context)


@require_POST
def switch_plan(request: Request, uuid: UUID, position: int) -> HttpResponse:
    """Plan the move of the site to one of the compared web servers, and redirect to the plan for review."""
    contender = contender_or_404(comparison_or_404(request, uuid), position)
    back = reverse("comparisons:detail", args=[uuid])
    return planned(request, lambda: [services.switch_plan(actor=request.user, contender=contender)], back)
