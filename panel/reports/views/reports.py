"""Pages of reports: list, details, downloads, and the creation of a report for a run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.benchmarks.selectors import runs_visible, suites_visible
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.core.ui import Crumb, Tab
from panel.reports import selectors, services
from panel.reports.document import from_json
from panel.reports.forms import ReportFilterForm
from panel.reports.mail import file_name
from panel.reports.models import Report
from panel.reports.writers import WRITERS

PAGE = 50


def tabs(current: str) -> list[Tab]:
    pages = (("reports:list", _("Reports")), ("reports:schedules", _("Schedules")))
    return [Tab(label, reverse(name), name == current) for name, label in pages]


def crumbs(*more: Crumb) -> list[Crumb]:
    return [Crumb(_("Reports"), reverse("reports:list")), *more]


def report_or_404(request: Request, uuid: UUID) -> Report:
    return get_object_or_404(selectors.reports_visible(request.user), uuid=uuid)


@require_safe
def report_list(request: Request) -> HttpResponse:
    form = ReportFilterForm(request.GET or None, user=request.user)
    rows = selectors.reports_visible(request.user).defer("content")
    context = {
        "page": Paginator(_filtered(rows, form) if form.is_bound else rows, PAGE).get_page(request.GET.get("page")),
        "filters": form,
        "tabs": tabs("reports:list"),
        "has_schedules": selectors.schedules_visible(request.user).exists(),
        "silent_since": selectors.silent_since(),
        "may_benchmark": may(request.user, Action.BENCHMARK),
    }
    return render(request, "reports/list.html", context)


def _filtered(rows: QuerySet[Report], form: ReportFilterForm) -> QuerySet[Report]:
    if not form.is_valid():
        return rows.none()
    data = form.cleaned_data
    if data["q"]:
        rows = rows.filter(title__icontains=data["q"])
    for name in ("outcome", "schedule"):
        if data[name]:
            rows = rows.filter(**{name: data[name]})
    return rows


@require_safe
def detail(request: Request, uuid: UUID) -> HttpResponse:
    report = report_or_404(request, uuid)
    context = {
        "report": report,
        "document": from_json(report.content),
        "forms": list(WRITERS),
        "deliveries": report.deliveries.all(),
        "crumbs": crumbs(),
        "may_steer": _may_steer(request, report),
    }
    return render(request, "reports/detail.html", context)


def _may_steer(request: Request, report: Report) -> bool:
    teams = [report.team, *report.teams.all()]
    return all(may(request.user, Action.BENCHMARK, team) for team in teams)


@require_safe
def download(request: Request, uuid: UUID, form: str) -> HttpResponse:
    """Download a report in one of its formats."""
    report = report_or_404(request, uuid)
    writer = WRITERS.get(form)
    if writer is None:
        raise Http404
    response = HttpResponse(writer.write(from_json(report.content)), content_type=writer.content_type)
    response["Content-Disposition"] = f'attachment; filename="{file_name(report)}.{form}"'
    return response


@require_POST
def create(request: Request) -> HttpResponse:
    """Create a report of the run or suite run whose UUID the form sends, and redirect to the report."""
    values: dict[str, Any] = {}
    for name, rows in (("run", runs_visible(request.user)), ("suite_run", suites_visible(request.user))):
        if request.POST.get(name):
            try:
                values[name] = get_object_or_404(rows, uuid=UUID(request.POST[name]))
            except ValueError as error:
                raise Http404 from error
    try:
        report = services.report_create(actor=request.user, **values)
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("benchmarks:list")
    return redirect("reports:detail", report.uuid)


@require_POST
def send(request: Request, uuid: UUID) -> HttpResponse:
    report = report_or_404(request, uuid)
    try:
        made = services.report_send(actor=request.user, report=report)
    except ApplicationError as error:
        messages.error(request, error.message)
    else:
        messages.success(
            request, _("Paddock is sending the report (recipients: %d). The results appear below.") % len(made)
        )
    return redirect("reports:detail", uuid)


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: Request, uuid: UUID) -> HttpResponse:
    report = report_or_404(request, uuid)
    here = reverse("reports:detail", args=[uuid])
    if request.method == "POST":
        services.report_delete(actor=request.user, report=report)
        messages.success(request, _("The report was deleted; its run is kept."))
        return redirect("reports:list")
    context = {
        "title": _("Delete this report?"),
        "heading": _("Delete the report"),
        "text": report.title,
        "losses": [_("The report in all its formats"), _("The record of the report's deliveries")],
        "verb": _("Delete the report"),
        "cancel_url": here,
        "crumbs": crumbs(Crumb(report.title, here)),
    }
    return render(request, "benchmarks/delete.html", context)
