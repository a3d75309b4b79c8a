"""Pages of runs: list, start, progress, result, comparison, exports."""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.benchmarks import selectors
from panel.benchmarks.forms import RunFilterForm, RunForm, asked_sites
from panel.benchmarks.job_kinds import RUN
from panel.benchmarks.models import Run
from panel.benchmarks.runs import exports, results, services
from panel.benchmarks.scenarios.ready_made import QUICK
from panel.core.errors import ApplicationError
from panel.core.forms import attempt, form_status
from panel.core.http import Request
from panel.core.row_selection import ticked
from panel.core.ui import Crumb
from panel.core.views.jobs import job_context

PAGE = 50
COMPARED_RUNS = 8


def crumbs(*more: Crumb) -> list[Crumb]:
    return [Crumb(_("Benchmarks"), reverse("benchmarks:list")), *more]


def run_or_404(request: Request, uuid: UUID) -> Run:
    return get_object_or_404(selectors.with_targets(selectors.runs_visible(request.user)), uuid=uuid)


# --- lists ---


@require_safe
def run_list(request: Request) -> HttpResponse:
    form = RunFilterForm(request.GET or None, user=request.user)
    rows = selectors.runs_visible(request.user)
    rows = selectors.with_targets(_filtered(rows, form) if form.is_bound else rows).defer("fingerprint", "parameters")
    context = {
        "page": Paginator(rows, PAGE).get_page(request.GET.get("page")),
        "filters": form,
        "scenarios": selectors.scenarios_visible(request.user)[:1],
        "quick": QUICK,
        "may_benchmark": may(request.user, Action.BENCHMARK),
    }
    return render(request, "benchmarks/list.html", context)


def _filtered(rows: QuerySet[Run], form: RunFilterForm) -> QuerySet[Run]:
    if not form.is_valid():
        return rows.none()
    data = form.cleaned_data
    if data["q"]:
        rows = rows.filter(title__icontains=data["q"])
    for name in ("status", "scenario"):
        if data[name]:
            rows = rows.filter(**{name: data[name]})
    return rows


# --- starting and steering ---


@require_http_methods(["GET", "HEAD", "POST"])
def run_create(request: Request) -> HttpResponse:
    initial: dict[str, object] = {name: request.GET.get(name) for name in ("scenario", "baseline", "title")}
    initial["sites"] = ticked(request, "site") + request.GET.getlist("sites")
    form = RunForm(request.POST or None, user=request.user, initial=initial, **asked_sites(request))
    if request.method == "POST" and form.is_valid():
        runs = attempt(form, lambda: _start(request, form))
        if runs is not None and len(runs) == 1:
            return redirect("benchmarks:detail", runs[0].uuid)
        if runs is not None:
            words = _(
                "%d runs are queued, one for each number of connections. When the runs have "
                "ended, select and compare them here."
            )
            messages.success(request, words % len(runs))
            return redirect(f"{reverse('benchmarks:list')}?{urlencode({'scenario': form.cleaned_data['scenario'].pk})}")
    context = {
        "form": form,
        "crumbs": crumbs(),
        "has_scenarios": selectors.scenarios_visible(request.user).exists(),
        "has_sites": selectors.sites_measurable(request.user).exists(),
    }
    return render(request, "benchmarks/run_form.html", context, status=form_status(form))


def _start(request: Request, form: RunForm) -> list[Run]:
    data = form.cleaned_data
    return services.runs_create(
        actor=request.user,
        scenario=data["scenario"],
        sites=form.ordered,
        title=data["title"],
        concurrencies=data["concurrencies"],
    )


def _done(request: Request, back: str, error: ApplicationError | None) -> HttpResponse:
    if error is not None:
        messages.error(request, error.message)
    return redirect(back)


@require_POST
def cancel(request: Request, uuid: UUID) -> HttpResponse:
    run = run_or_404(request, uuid)
    failure = None
    try:
        services.run_cancel(actor=request.user, run=run)
    except ApplicationError as error:
        failure = error
    return _done(request, reverse("benchmarks:detail", args=[uuid]), failure)


@require_POST
def again(request: Request, uuid: UUID) -> HttpResponse:
    run = run_or_404(request, uuid)
    try:
        repeated = services.run_repeat(actor=request.user, run=run)
    except ApplicationError as error:
        return _done(request, reverse("benchmarks:detail", args=[uuid]), error)
    return redirect("benchmarks:detail", repeated.uuid)


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: Request, uuid: UUID) -> HttpResponse:
    run = run_or_404(request, uuid)
    if request.method == "POST":
        try:
            services.run_delete(actor=request.user, run=run)
        except ApplicationError as error:
            return _done(request, reverse("benchmarks:detail", args=[uuid]), error)
        messages.success(request, _("The run “%s” was deleted.") % run.title)
        return redirect("benchmarks:list")
    context = {
        "title": _("Delete this run?"),
        "heading": _("Delete the run"),
        "text": run.title,
        "losses": [_("The figures, charts, and samples of the run"), _("The load generator's output of every round")],
        "verb": _("Delete the run"),
        "cancel_url": reverse("benchmarks:detail", args=[uuid]),
        "crumbs": crumbs(Crumb(run.title, reverse("benchmarks:detail", args=[uuid]))),
    }
    return render(request, "benchmarks/delete.html", context)


# --- one run ---


@require_safe
def detail(request: Request, uuid: UUID) -> HttpResponse:
    """Show the page of a run: its progress, or its result once it has ended."""
    run = run_or_404(request, uuid)
    context = {"run": run, "crumbs": crumbs(), "may_benchmark": _may_steer(request, run)}
    sites = [target.site for target in run.targets.select_related("site") if target.site is not None]
    context |= {"repeated_as": services.repeated_as(run), "first_site": sites[0] if sites else None}
    if not run.is_ended:
        return render(request, "benchmarks/running.html", context | job_context(RUN, run, request.user))
    return render(request, "benchmarks/result.html", context | results.result(run))


def _may_steer(request: Request, run: Run) -> bool:
    sites = [target.site for target in run.targets.all() if target.site is not None]
    return all(may(request.user, Action.BENCHMARK, site.team) for site in sites)


@require_safe
def output(request: Request, uuid: UUID, position: int, number: int) -> HttpResponse:
    """Return the complete output of the load tool in one round, as plain text."""
    run = run_or_404(request, uuid)
    row = get_object_or_404(selectors.rounds_of(run), target__position=position, number=number)
    return HttpResponse(row.output, content_type="text/plain; charset=utf-8")


@require_safe
def export_json(request: Request, uuid: UUID) -> HttpResponse:
    run = run_or_404(request, uuid)
    response = JsonResponse(exports.run_json(run), json_dumps_params={"indent": 1})
    response["Content-Disposition"] = f'attachment; filename="benchmark-{run.uuid}.json"'
    return response


@require_safe
def export_csv(request: Request, uuid: UUID) -> HttpResponse:
    run = run_or_404(request, uuid)
    response = HttpResponse(exports.run_csv(run), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="benchmark-{run.uuid}.csv"'
    return response


# --- several runs ---


@require_safe
def compare(request: Request) -> HttpResponse:
    """Show the comparison of 2 to COMPARED_RUNS runs. Each query parameter `run` is the UUID of a run."""
    wanted = request.GET.getlist("run")
    try:
        uuids = [UUID(text) for text in wanted]
    except ValueError as error:
        raise Http404 from error
    rows = selectors.with_targets(selectors.runs_visible(request.user).filter(uuid__in=uuids))
    runs = sorted((run for run in rows if run.summary.get("targets")), key=lambda run: uuids.index(run.uuid))
    if len(runs) < 2 or len(runs) > COMPARED_RUNS:
        text = _("Select 2 to %d runs with a result.") % COMPARED_RUNS
        messages.error(request, text)
        return redirect("benchmarks:list")
    return render(request, "benchmarks/compare.html", {"crumbs": crumbs(), **results.compared(runs)})
