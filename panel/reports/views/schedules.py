"""Pages of schedules: list, form, dates and their results."""

from __future__ import annotations

import zoneinfo
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.benchmarks.forms import SuiteForm, asked_sites, suite_fields
from panel.benchmarks.suites import SUITES, choosing
from panel.benchmarks.suites.availability import presets_expected
from panel.benchmarks.suites.definitions import PRESETS
from panel.core.errors import ApplicationError
from panel.core.forms import attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.mail import has_server
from panel.core.ui import Crumb, Tab
from panel.core.zones import time_zones
from panel.hosts.selectors import hosts_visible
from panel.reports import cron, selectors, services
from panel.reports.choices import OPEN, Kind
from panel.reports.forms import ScheduleForm
from panel.reports.models import Schedule
from panel.reports.views.reports import PAGE, tabs
from panel.reports.views.reports import crumbs as report_crumbs

DATES_SHOWN = 5


def crumbs(*more: Crumb) -> list[Crumb]:
    return report_crumbs(Crumb(_("Schedules"), reverse("reports:schedules")), *more)


def schedule_or_404(request: Request, pk: int) -> Schedule:
    return get_object_or_404(selectors.schedules_visible(request.user), pk=pk)


def may_steer(request: Request, schedule: Schedule) -> bool:
    teams = [schedule.team, *(row.site.team for row in schedule.sites.all() if row.site is not None)]
    return all(may(request.user, Action.BENCHMARK, team) for team in teams)


@require_safe
def schedule_list(request: Request) -> HttpResponse:
    rows = selectors.with_last(selectors.schedules_visible(request.user))
    context = {
        "page": Paginator(rows, PAGE).get_page(request.GET.get("page")),
        "tabs": tabs("reports:schedules"),
        "silent_since": selectors.silent_since(),
        "may_benchmark": may(request.user, Action.BENCHMARK),
    }
    return render(request, "reports/schedules.html", context)


# --- form ---


@require_safe
def dates(request: Request) -> HttpResponse:
    """Return the next dates of a cron expression as HTML, for the part of the form's page that is updated during
    typing.
    """
    return render(request, "reports/dates.html", _dates(request.GET.get("cron", ""), request.GET.get("timezone", "")))


def _dates(expression: str, zone: str) -> dict[str, object]:
    if zone not in time_zones():
        return {"fault": _("Choose a time zone.")}
    try:
        words = cron.explained(expression[:120])
        found = cron.following(expression[:120], zone, timezone.now(), DATES_SHOWN)
    except ApplicationError as error:
        return {"fault": error.message}
    place = zoneinfo.ZoneInfo(zone)
    return {"explained": words, "dates": [moment.astimezone(place) for moment in found], "zone": zone}


@require_http_methods(["GET", "HEAD", "POST"])
def create(request: Request, kind: str = Kind.SCENARIO) -> HttpResponse:
    if kind not in Kind.values:
        raise Http404
    asked = asked_sites(request)
    form = ScheduleForm(
        request.POST or None, user=request.user, kind=Kind(kind), initial=_asked_suite(request), **asked
    )
    if request.method == "POST" and form.is_valid():
        made = attempt(form, lambda: services.schedule_create(actor=request.user, **form.values))
        if made is not None:
            messages.success(request, _("The schedule “%s” was saved.") % made.name)
            return redirect("reports:schedule", made.pk)
    chosen = [
        Tab(choice.label, reverse("reports:schedule-create", args=[choice.value]), choice.value == kind)
        for choice in Kind
    ]
    return _form_page(request, form, kind, tabs=chosen, crumbs=crumbs())


def _asked_suite(request: Request) -> dict[str, object]:
    """Return {"suite": the suite in the query} as the initial value of the schedule's form; {} for an unknown suite."""
    suite = request.GET.get("suite", "")
    return {"suite": suite} if suite in SUITES else {}


def _form_page(request: Request, form: ScheduleForm, kind: str, **context: Any) -> HttpResponse:
    schedule = form.schedule
    check = [kind, schedule.pk] if schedule else [kind]
    shown = _dates(str(form["cron"].value() or ""), str(form["timezone"].value() or ""))
    context |= {
        "form": form,
        "kind": kind,
        "schedule": schedule,
        "validate_url": reverse("reports:schedule-check", args=check),
        "has_mail": has_server(),
    }
    if kind == Kind.SUITE:
        context |= {"suite": form.chosen_suite, "presets": _takes(request, form)}
    return render(request, "reports/schedule_form.html", context | shown, status=form_status(form))


def _takes(request: Request, form: ScheduleForm) -> list[tuple[str, str]]:
    """Return (preset, expected duration) for each preset, for the part and the host chosen in the form.
    If the form has errors, each duration is replaced by the text of the errors.
    """
    suite = form.chosen_suite
    given = {name: form[name].value() for name in suite_fields(suite)}
    paths = given.get("paths") or ""
    given["paths"] = paths if isinstance(paths, str) else "\n".join(paths)
    chosen = SuiteForm(given, suite=suite, user=request.user, kept=given["cases"] or ())
    if not chosen.is_valid():
        return [(name, chosen.wrong) for name in PRESETS]
    host = hosts_visible(request.user).filter(name=form["host"].value() or "").first()
    return presets_expected(suite.slug, chosen.setups, chosen.choice, host)


@require_POST
def check(request: Request, kind: str, pk: int | None = None) -> HttpResponse:
    """Return the errors of the schedule form's fields as HTML while the user types. Saves nothing."""
    if kind not in Kind.values:
        raise Http404
    schedule = schedule_or_404(request, pk) if pk else None
    form = ScheduleForm(request.POST, user=request.user, kind=Kind(kind), schedule=schedule)
    return field_errors(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: Request, pk: int) -> HttpResponse:
    schedule = schedule_or_404(request, pk)
    kind = Kind(schedule.kind)
    form = ScheduleForm(
        request.POST or None,
        user=request.user,
        kind=kind,
        schedule=schedule,
        initial=_asked_suite(request),
        **asked_sites(request),
    )
    if request.method == "POST" and form.is_valid():
        version = request.POST.get("version", "")
        expected = int(version) if version.isascii() and version.isdecimal() else None
        saved = attempt(
            form,
            lambda: services.schedule_update(
                actor=request.user, schedule=schedule, expected_version=expected, **form.values
            ),
        )
        if saved is not None:
            messages.success(request, _("The schedule was saved."))
            return redirect("reports:schedule", pk)
    here = Crumb(schedule.name, reverse("reports:schedule", args=[pk]))
    return _form_page(request, form, kind, crumbs=crumbs(here))


# --- one schedule ---


@require_safe
def detail(request: Request, pk: int) -> HttpResponse:
    schedule = schedule_or_404(request, pk)
    rows = selectors.occurrences_of(schedule)
    context = {
        "schedule": schedule,
        "page": Paginator(rows, PAGE).get_page(request.GET.get("page")),
        "under_way": schedule.occurrences.filter(status__in=OPEN).exists(),
        "removed": selectors.removed_of(schedule)[:3],
        "silent_since": selectors.silent_since(),
        "may_steer": may_steer(request, schedule),
        "crumbs": crumbs(),
        "what": _suite_words(schedule) if schedule.kind == Kind.SUITE else [],
        **({} if schedule.is_paused else _dates(schedule.cron, schedule.timezone)),
    }
    return render(request, "reports/schedule.html", context)


def _suite_words(schedule: Schedule) -> list[tuple[str, str]]:
    suite = SUITES[schedule.suite]
    labels = [suite.setup(slug).label for slug in schedule.setups]
    return choosing.described(suite, schedule.preset, schedule.choice, labels)


def _steer(request: Request, pk: int, work: Any, done: str) -> HttpResponse:
    try:
        work(actor=request.user, schedule=schedule_or_404(request, pk))
    except ApplicationError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, done)
    return redirect("reports:schedule", pk)


@require_POST
def pause(request: Request, pk: int) -> HttpResponse:
    return _steer(
        request, pk, services.schedule_pause, _("The schedule was paused. No runs start until you resume the schedule.")
    )


@require_POST
def resume(request: Request, pk: int) -> HttpResponse:
    return _steer(
        request, pk, services.schedule_resume, _("The schedule was resumed. The next date starts the next run.")
    )


@require_POST
def run_now(request: Request, pk: int) -> HttpResponse:
    return _steer(
        request, pk, services.schedule_run_now, _("The run was started. The report appears here when the run ends.")
    )


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: Request, pk: int) -> HttpResponse:
    schedule = schedule_or_404(request, pk)
    here = reverse("reports:schedule", args=[pk])
    if request.method == "POST":
        services.schedule_delete(actor=request.user, schedule=schedule)
        messages.success(request, _("The schedule “%s” was deleted; its reports are kept.") % schedule.name)
        return redirect("reports:schedules")
    context = {
        "title": _("Delete this schedule?"),
        "heading": _("Delete the schedule"),
        "text": schedule.name,
        "losses": [_("The schedule and the record of its dates; Paddock keeps the reports and runs")],
        "verb": _("Delete the schedule"),
        "cancel_url": here,
        "crumbs": crumbs(Crumb(schedule.name, here)),
    }
    return render(request, "benchmarks/delete.html", context)
