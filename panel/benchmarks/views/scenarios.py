"""Pages of scenarios: list, form, history."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.benchmarks import selectors
from panel.benchmarks.charts import pictures
from panel.benchmarks.choices import Tool
from panel.benchmarks.forms import ScenarioForm
from panel.benchmarks.models import Scenario
from panel.benchmarks.runs import services
from panel.benchmarks.scenarios.ready_made import BY_SLUG, QUICK
from panel.benchmarks.statistics.summary import BY_NAME, FIGURES
from panel.benchmarks.tools.arguments import TOOLS
from panel.benchmarks.views.runs import PAGE, crumbs
from panel.core.errors import ApplicationError
from panel.core.forms import add_application_error, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb, Tab


def scenario_or_404(request: Request, pk: int) -> Scenario:
    return get_object_or_404(selectors.scenarios_visible(request.user), pk=pk)


def _crumbs(*more: Crumb) -> list[Crumb]:
    return crumbs(Crumb(_("Scenarios"), reverse("benchmarks:scenarios")), *more)


@require_safe
def scenario_list(request: Request) -> HttpResponse:
    rows = selectors.scenarios_visible(request.user)
    context = {
        "page": Paginator(rows, PAGE).get_page(request.GET.get("page")),
        "quick": QUICK,
        "crumbs": crumbs(),
        "may_benchmark": may(request.user, Action.BENCHMARK),
    }
    return render(request, "benchmarks/scenarios.html", context)


@require_POST
def quick(request: Request) -> HttpResponse:
    """Create a predefined scenario, then redirect to the form that chooses sites for a run."""
    chosen = BY_SLUG.get(request.POST.get("quick", ""))
    if chosen is None:
        raise Http404
    scenario = services.quick_create(actor=request.user, quick=chosen)
    return redirect(f"{reverse('benchmarks:run-create')}?scenario={scenario.pk}")


@require_http_methods(["GET", "HEAD", "POST"])
def scenario_create(request: Request, tool: str = Tool.AB) -> HttpResponse:
    if tool not in Tool.values:
        raise Http404
    form = ScenarioForm(request.POST or None, user=request.user, tool=Tool(tool))
    if request.method == "POST" and form.is_valid():
        try:
            scenario = services.scenario_create(actor=request.user, **form.values)
        except (ApplicationError, ValidationError) as error:
            _refused(form, error)
        else:
            messages.success(request, _("The scenario “%s” was saved. Choose the sites to benchmark.") % scenario.name)
            return redirect(f"{reverse('benchmarks:run-create')}?scenario={scenario.pk}")
    tabs = [
        Tab(choice.label, reverse("benchmarks:scenario-create", args=[choice.value]), choice.value == tool)
        for choice in Tool
    ]
    context = {
        "form": form,
        "tool_form": TOOLS[Tool(tool)],
        "tabs": tabs,
        "crumbs": _crumbs(),
        "validate_url": reverse("benchmarks:scenario-check", args=[tool]),
    }
    return render(request, "benchmarks/scenario_form.html", context, status=form_status(form))


def _refused(form: ScenarioForm, error: ApplicationError | ValidationError) -> None:
    if isinstance(error, ApplicationError):
        add_application_error(form, error)
    else:
        form.add_error(None, error.messages)


@require_POST
def scenario_check(request: Request, tool: str, pk: int | None = None) -> HttpResponse:
    """Return the errors of the scenario form's fields as HTML while the user types. Saves nothing."""
    if tool not in Tool.values:
        raise Http404
    scenario = scenario_or_404(request, pk) if pk else None
    return field_errors(request, ScenarioForm(request.POST, user=request.user, tool=Tool(tool), scenario=scenario))


@require_http_methods(["GET", "HEAD", "POST"])
def scenario_edit(request: Request, pk: int) -> HttpResponse:
    scenario = scenario_or_404(request, pk)
    form = ScenarioForm(request.POST or None, user=request.user, tool=Tool(scenario.tool), scenario=scenario)
    if request.method == "POST" and form.is_valid():
        version = request.POST.get("version", "")
        expected = int(version) if version.isascii() and version.isdecimal() else None
        try:
            services.scenario_update(actor=request.user, scenario=scenario, expected_version=expected, **form.values)
        except (ApplicationError, ValidationError) as error:
            _refused(form, error)
        else:
            messages.success(
                request, _("The scenario was saved. Earlier runs keep the previous version of the scenario.")
            )
            return redirect("benchmarks:scenario", scenario.pk)
    context = {
        "form": form,
        "scenario": scenario,
        "tool_form": TOOLS[Tool(scenario.tool)],
        "crumbs": _crumbs(Crumb(scenario.name, reverse("benchmarks:scenario", args=[pk]))),
        "validate_url": reverse("benchmarks:scenario-check", args=[scenario.tool, pk]),
    }
    return render(request, "benchmarks/scenario_form.html", context, status=form_status(form))


@require_http_methods(["GET", "HEAD", "POST"])
def scenario_delete(request: Request, pk: int) -> HttpResponse:
    scenario = scenario_or_404(request, pk)
    if request.method == "POST":
        services.scenario_delete(actor=request.user, scenario=scenario)
        messages.success(request, _("The scenario “%s” was deleted; its runs are kept.") % scenario.name)
        return redirect("benchmarks:scenarios")
    context = {
        "title": _("Delete this scenario?"),
        "heading": _("Delete the scenario"),
        "text": scenario.name,
        "losses": [_("The scenario and its history chart; Paddock keeps the runs")],
        "verb": _("Delete the scenario"),
        "cancel_url": reverse("benchmarks:scenario", args=[pk]),
        "crumbs": _crumbs(Crumb(scenario.name, reverse("benchmarks:scenario", args=[pk]))),
    }
    return render(request, "benchmarks/delete.html", context)


def _argument_words(scenario: Scenario) -> list[tuple[str, str, str]]:
    """Return (label, value, unit) for each argument of the scenario that has a value."""
    words = []
    for field in TOOLS[Tool(scenario.tool)].fields:
        value = scenario.arguments.get(field.name)
        if isinstance(value, bool):
            words.append((field.label, _("yes") if value else _("no"), ""))
        elif value is not None:
            words.append((field.label, dict(field.choices).get(str(value), str(value)), field.unit))
    return words


@require_safe
def scenario_detail(request: Request, pk: int) -> HttpResponse:
    """Show a scenario's load, its runs, and a chart of one figure over these runs."""
    scenario = scenario_or_404(request, pk)
    name = request.GET.get("figure", "throughput_rps")
    if name not in BY_NAME:
        raise Http404
    points = selectors.history_points(request.user, scenario, name)
    runs = selectors.with_targets(selectors.runs_visible(request.user).filter(scenario=scenario))
    context = {
        "scenario": scenario,
        "arguments": _argument_words(scenario),
        "chart": pictures.history(points, name),
        "figures": FIGURES,
        "figure": name,
        "page": Paginator(runs, PAGE).get_page(request.GET.get("page")),
        "crumbs": _crumbs(),
        "may_benchmark": may(request.user, Action.BENCHMARK, scenario.team),
    }
    return render(request, "benchmarks/scenario.html", context)
