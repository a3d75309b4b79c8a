"""Pages of suites: published benchmarks, start, progress, result."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.benchmarks import selectors
from panel.benchmarks.forms import SuiteForm
from panel.benchmarks.job_kinds import SUITE
from panel.benchmarks.models import SuiteRun
from panel.benchmarks.suites import SUITES, published
from panel.benchmarks.suites import comparing as suite_comparing
from panel.benchmarks.suites import exports as suite_exports
from panel.benchmarks.suites import results as suite_results
from panel.benchmarks.suites import services as suite_services
from panel.benchmarks.suites.availability import presets_expected
from panel.benchmarks.suites.definitions import PRESETS
from panel.benchmarks.suites.services import NotPrepared
from panel.benchmarks.views.runs import crumbs
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.core.views.jobs import job_context
from panel.hosts.models import Host, HostStatus
from panel.hosts.selectors import hosts_visible

PAGE = 20


def _crumbs(*more: Crumb) -> list[Crumb]:
    return crumbs(Crumb(_("Suites"), reverse("benchmarks:suites")), *more)


def suite_or_404(request: Request, uuid: UUID) -> SuiteRun:
    return get_object_or_404(selectors.with_runs(selectors.suites_visible(request.user)), uuid=uuid)


@require_safe
def suite_list(request: Request) -> HttpResponse:
    """Show the published suites, with forms to start them, and their runs."""
    hosts = list(hosts_visible(request.user).filter(status=HostStatus.READY))
    context = {
        "offers": [_offer(request.user, slug, next(iter(hosts), None)) for slug in SUITES],
        "hosts": hosts,
        "page": Paginator(selectors.suites_visible(request.user), PAGE).get_page(request.GET.get("page")),
        "may_benchmark": may(request.user, Action.BENCHMARK),
        "may_administer": may(request.user, Action.ADMINISTER),
        "crumbs": crumbs(),
    }
    return render(request, "benchmarks/suites.html", context)


def _offer(user: User, slug: str, host: Host | None) -> dict[str, object]:
    """Return the template context for one suite: its data, its form, and the expected durations on `host`."""
    suite = SUITES[slug]
    return {
        "suite": suite,
        "source": published.suite(slug),
        "presets": presets_expected(slug, host=host),
        "form": SuiteForm(suite=suite, user=user),
        "prepared": [item for item in suite.applications if item.ready_made],
    }


@require_safe
def suite_expected(request: Request, suite: str) -> HttpResponse:
    """Return the expected duration of each preset (full suite and preview) as HTML, for the part and the host chosen in
    the form. The HTML is the form's buttons with the durations; with `words` in the query, only text.
    """
    if suite not in SUITES:
        raise Http404
    form = SuiteForm(request.GET, suite=SUITES[suite], user=request.user)
    if form.is_valid():
        host = hosts_visible(request.user).filter(name=request.GET.get("host", "")).first()
        found = presets_expected(suite, form.setups, form.choice, host)
    else:
        found = [(name, form.wrong) for name in PRESETS]
    part = "takes" if "words" in request.GET else "buttons"
    return render(request, f"benchmarks/suite_{part}.html", {"suite": SUITES[suite], "presets": found})


@require_POST
def suite_start(request: Request, suite: str) -> HttpResponse:
    """Start a suite with the preset of the clicked button, on the chosen host."""
    if suite not in SUITES:
        raise Http404
    host = get_object_or_404(hosts_visible(request.user), name=request.POST.get("host", ""))
    form = SuiteForm(request.POST, suite=SUITES[suite], user=request.user)
    try:
        if not form.is_valid():
            raise ApplicationError(form.wrong)
        row = suite_services.suite_start(
            actor=request.user,
            suite=suite,
            preset=request.POST.get("preset", ""),
            host=host,
            setups=form.setups,
            choice=form.choice,
        )
    except NotPrepared as error:
        if may(request.user, Action.ADMINISTER):
            words = _(
                "The suite was not started: %(host)s is not prepared for %(application)s. "
                "Prepare the host, or check the host again."
            )
            messages.error(request, words % {"host": error.host.name, "application": error.application.label})
            return redirect("hosts:prepare", error.host.name, error.application.ready_made)
        messages.error(request, error.message)
        return redirect("benchmarks:suites")
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("benchmarks:suites")
    return redirect("benchmarks:suite", row.uuid)


@require_safe
def suite_detail(request: Request, uuid: UUID) -> HttpResponse:
    """Show the page of a suite run: its progress, or its result once it has ended."""
    row = suite_or_404(request, uuid)
    context = {"row": row, "crumbs": _crumbs(), "may_benchmark": suite_services.may_steer(request.user, row)}
    if row.is_ended:
        return render(request, "benchmarks/suite_result.html", context | suite_results.result(row))
    shown = suite_results.described(row) | job_context(SUITE, row, request.user)
    return render(request, "benchmarks/suite_running.html", context | shown)


@require_POST
def suite_cancel(request: Request, uuid: UUID) -> HttpResponse:
    row = suite_or_404(request, uuid)
    try:
        suite_services.suite_cancel(actor=request.user, row=row)
    except ApplicationError as error:
        messages.error(request, error.message)
    return redirect("benchmarks:suite", uuid)


@require_POST
def suite_again(request: Request, uuid: UUID) -> HttpResponse:
    row = suite_or_404(request, uuid)
    try:
        repeated = suite_services.suite_repeat(actor=request.user, row=row)
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("benchmarks:suite", uuid)
    return redirect("benchmarks:suite", repeated.uuid)


@require_http_methods(["GET", "HEAD", "POST"])
def suite_delete(request: Request, uuid: UUID) -> HttpResponse:
    row = suite_or_404(request, uuid)
    here = reverse("benchmarks:suite", args=[uuid])
    if request.method == "POST":
        try:
            suite_services.suite_delete(actor=request.user, row=row)
        except ApplicationError as error:
            messages.error(request, error.message)
            return redirect(here)
        messages.success(request, _("“%s” was deleted.") % row.title)
        return redirect("benchmarks:suites")
    context = {
        "title": _("Delete this suite result?"),
        "heading": _("Delete suite result"),
        "text": row.title,
        "losses": [
            _("The tables and charts of the suite run"),
            _("The runs of all cases, their samples, and the load generator's output"),
        ],
        "verb": _("Delete result"),
        "cancel_url": here,
        "crumbs": _crumbs(Crumb(row.title, here)),
    }
    return render(request, "benchmarks/delete.html", context)


@require_safe
def suite_compare(request: Request) -> HttpResponse:
    """Compare runs of one suite. Each query parameter `suite` is the UUID of a suite run."""
    try:
        uuids = [UUID(text) for text in request.GET.getlist("suite")]
    except ValueError as error:
        raise Http404 from error
    found = {row.uuid: row for row in selectors.suites_visible(request.user).filter(uuid__in=uuids)}
    rows = [found[uuid] for uuid in dict.fromkeys(uuids) if uuid in found]
    try:
        tables = suite_comparing.compared(rows)
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("benchmarks:suites")
    return render(request, "benchmarks/suite_compare.html", {"rows": rows, "tables": tables, "crumbs": _crumbs()})


@require_safe
def suite_json(request: Request, uuid: UUID) -> HttpResponse:
    row = suite_or_404(request, uuid)
    response = JsonResponse(suite_exports.suite_json(row), json_dumps_params={"indent": 1})
    response["Content-Disposition"] = f'attachment; filename="{suite_exports.file_name(row)}.json"'
    return response


@require_safe
def suite_csv(request: Request, uuid: UUID) -> HttpResponse:
    row = suite_or_404(request, uuid)
    response = HttpResponse(suite_exports.suite_csv(row), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{suite_exports.file_name(row)}.csv"'
    return response


@require_safe
def suite_report(request: Request, uuid: UUID) -> HttpResponse:
    """Download the result of a suite run as one HTML file."""
    row = suite_or_404(request, uuid)
    response = HttpResponse(suite_exports.suite_html(row))
    response["Content-Disposition"] = f'attachment; filename="{suite_exports.file_name(row)}.html"'
    return response
