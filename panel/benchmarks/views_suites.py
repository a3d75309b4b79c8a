"""Pages of suites: the published comparisons, starting one, its course, its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.benchmarks import selectors, suite_comparing, suite_exports, suite_results, suite_services
from panel.benchmarks.models import SuiteRun
from panel.benchmarks.stream import suite_events
from panel.benchmarks.suite_services import NotPrepared
from panel.benchmarks.suites import SUITES, choosing, published
from panel.benchmarks.suites.choosing import Choice
from panel.benchmarks.suites.definitions import PRESETS, PROTOCOLS
from panel.benchmarks.views import crumbs
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.core.stream import region_view
from panel.core.ui import Crumb
from panel.hosts.models import HostStatus
from panel.hosts.selectors import hosts_visible

PAGE = 20


def _crumbs(*more: Crumb) -> list[Crumb]:
    return crumbs(Crumb(_("Suites"), reverse("benchmarks:suites")), *more)


def suite_or_404(request: Request, uuid: UUID) -> SuiteRun:
    return get_object_or_404(selectors.with_runs(selectors.suites_visible(request.user)), uuid=uuid)


@require_safe
def suite_list(request: Request) -> HttpResponse:
    """What can be run, and what was."""
    context = {
        "offers": [_offer(slug) for slug in SUITES],
        "hosts": hosts_visible(request.user).filter(status=HostStatus.READY),
        "page": Paginator(selectors.suites_visible(request.user), PAGE).get_page(request.GET.get("page")),
        "may_benchmark": may(request.user, Action.BENCHMARK),
        "may_administer": may(request.user, Action.ADMINISTER),
        "crumbs": crumbs(),
    }
    return render(request, "benchmarks/suites.html", context)


def _offer(slug: str) -> dict[str, Any]:
    suite = SUITES[slug]
    spoken = choosing.protocols(suite.full)
    return {
        "suite": suite,
        "source": published.suite(slug),
        "presets": _presets(slug, (), Choice()),
        "cases": choosing.groups(suite.full),
        "protocols": {name: PROTOCOLS[name] for name in spoken} if len(spoken) > 1 else {},
    }


def _presets(slug: str, setups: Sequence[str], choice: Choice) -> list[tuple[str, str]]:
    """Each preset, with how many cases it has of what is chosen and how long they take; or why it cannot be run."""
    found: list[tuple[str, str]] = []
    for name in PRESETS:
        try:
            count = len(choice.of(SUITES[slug], name))
            takes = choosing.duration_words(suite_services.expected_seconds(slug, name, setups, choice))
            words = ngettext("%(count)d case, %(takes)s", "%(count)d cases, %(takes)s", count)
            found.append((name, words % {"count": count, "takes": takes}))
        except ApplicationError as error:
            found.append((name, error.message))
    return found


def _choice(data: QueryDict) -> Choice:
    paths = tuple(line.strip() for line in data.get("paths", "").splitlines() if line.strip())
    return Choice(
        tuple(data.getlist("cases")), tuple(data.getlist("protocols")), data.get("application", "")[:40], paths
    )


@require_safe
def suite_expected(request: Request, suite: str) -> HttpResponse:
    """The buttons of the form, for what is chosen in it."""
    if suite not in SUITES:
        raise Http404
    presets = _presets(suite, request.GET.getlist("setups"), _choice(request.GET))
    return render(request, "benchmarks/suite_buttons.html", {"suite": SUITES[suite], "presets": presets})


@require_POST
def suite_start(request: Request, suite: str) -> HttpResponse:
    """One click: the preset's button, with the host that is chosen beside it."""
    if suite not in SUITES:
        raise Http404
    host = get_object_or_404(hosts_visible(request.user), name=request.POST.get("host", ""))
    try:
        row = suite_services.suite_start(
            actor=request.user,
            suite=suite,
            preset=request.POST.get("preset", ""),
            host=host,
            setups=request.POST.getlist("setups"),
            choice=_choice(request.POST),
        )
    except NotPrepared as error:
        messages.error(request, error.message)
        if may(request.user, Action.ADMINISTER):
            return redirect("hosts:prepare", error.host.name, error.application.ready_made)
        return redirect("benchmarks:suites")
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("benchmarks:suites")
    return redirect("benchmarks:suite", row.uuid)


@require_safe
def suite_detail(request: Request, uuid: UUID) -> HttpResponse:
    """Its course while it runs; afterwards its result."""
    row = suite_or_404(request, uuid)
    context = {"row": row, "crumbs": _crumbs(), "may_benchmark": suite_services.may_steer(request.user, row)}
    if row.is_ended:
        return render(request, "benchmarks/suite_result.html", context | suite_results.result(row))
    shown = suite_results.described(row) | suite_results.course(row)
    return render(request, "benchmarks/suite_running.html", context | shown)


def _live_html(row: SuiteRun) -> str:
    return render_to_string("benchmarks/suite_live.html", {"row": row, **suite_results.course(row)})


@require_safe
def suite_live(request: Request, uuid: UUID) -> HttpResponse:
    """The partial that the event stream sends, for browsers that cannot hold a stream."""
    return HttpResponse(_live_html(suite_or_404(request, uuid)))


suite_event_stream = region_view(selectors.suite_is_readable, lambda uuid: suite_events(uuid, _live_html))


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
        messages.success(request, _("“%s” is deleted.") % row.title)
        return redirect("benchmarks:suites")
    context = {
        "title": _("Delete what this suite measured?"),
        "heading": _("Delete the suite's result"),
        "text": row.title,
        "losses": [_("Its tables and charts"), _("The runs of its cases, their samples and the load tools' output")],
        "verb": _("Delete the result"),
        "cancel_url": here,
        "crumbs": _crumbs(Crumb(row.title, here)),
    }
    return render(request, "benchmarks/delete.html", context)


@require_safe
def suite_compare(request: Request) -> HttpResponse:
    """Runs of one suite side by side: `suite` is a suite run's uuid, as often as there are."""
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
    """The result as one file, to be kept or sent."""
    row = suite_or_404(request, uuid)
    response = HttpResponse(suite_exports.suite_html(row))
    response["Content-Disposition"] = f'attachment; filename="{suite_exports.file_name(row)}.html"'
    return response
