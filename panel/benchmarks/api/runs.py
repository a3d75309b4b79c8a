"""REST API of benchmarks: scenarios, runs with their rounds and raw output, comparisons, and exports."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import UUID_REGEX, Resource, all_or_none
from panel.api.problems import ApiError, parameter_error
from panel.api.serializers import EmptySerializer
from panel.benchmarks import selectors
from panel.benchmarks.charts import pictures
from panel.benchmarks.models import Run, Scenario
from panel.benchmarks.runs import exports, services
from panel.benchmarks.scenarios.ready_made import BY_SLUG
from panel.benchmarks.serializers import (
    HistoryPointSerializer,
    QuickInput,
    RoundSerializer,
    RunComparisonSerializer,
    RunInput,
    RunSerializer,
    ScenarioSerializer,
)
from panel.benchmarks.statistics.summary import BY_NAME
from panel.websites.selectors import sites_visible

MAX_COMPARED = 20


class Scenarios(Resource):
    """Scenarios: reusable loads for benchmarks of sites."""

    model = Scenario
    serializer_class = ScenarioSerializer
    writes = Action.BENCHMARK
    versioned = True
    filter_fields = {
        "name": ["exact", "in", "icontains"],
        "tool": ["exact", "in"],
        "team__slug": ["exact", "in", "isnull"],
    }
    ordering_fields = ("id", "name", "created_at")
    ordering = "name"
    dry_run_actions = {"create", "quick", "partial_update", "destroy"}
    parameters = {"history": {"figure"}}

    def rows(self) -> QuerySet[Scenario]:
        return selectors.scenarios_visible(self.actor)

    def create(self, request: Request) -> Response:
        scenario = services.scenario_create(actor=self.actor, **self.body(ScenarioSerializer))
        return self.answer(scenario, status=201, location=f"/api/v1/scenarios/{scenario.pk}/")

    @extend_schema(request=QuickInput, responses={201: ScenarioSerializer})
    @action(detail=False, methods=["post"])
    def quick(self, request: Request) -> Response:
        """Create a scenario from the predefined scenario with the slug `quick`. If the user can see a scenario with the
        name of the predefined scenario, return this scenario instead.
        """
        scenario = services.quick_create(actor=self.actor, quick=BY_SLUG[self.body(QuickInput)["quick"]])
        return self.answer(scenario, status=201, location=f"/api/v1/scenarios/{scenario.pk}/")

    def partial_update(self, request: Request, pk: str = "") -> Response:
        """Update the scenario. Earlier runs keep their copy of the scenario."""
        scenario = self.get_object()
        expected = self.expected_version(scenario)
        values = self.body(ScenarioSerializer, partial=True)
        return self.answer(
            services.scenario_update(actor=self.actor, scenario=scenario, expected_version=expected, **values)
        )

    def destroy(self, request: Request, pk: str = "") -> Response:
        """Delete the scenario. Its runs keep their copy of the scenario."""
        scenario = self.get_object()
        self.expected_version(scenario)
        services.scenario_delete(actor=self.actor, scenario=scenario)
        return Response(status=204)

    @extend_schema(
        responses=HistoryPointSerializer(many=True), parameters=[OpenApiParameter("figure", str, enum=sorted(BY_NAME))]
    )
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def history(self, request: Request, pk: str = "") -> Response:
        """List the values of one figure in the scenario's valid runs, oldest first. `figure` names the figure (default:
        throughput_rps). `change` describes a statistically significant change since the previous values; "" if there is
        none.
        """
        name = request.query_params.get("figure", "throughput_rps")
        if name not in BY_NAME:
            raise parameter_error("figure", f"Unknown metric “{name[:80]}”. Known metrics: {', '.join(BY_NAME)}.")
        points = selectors.history_points(self.actor, self.get_object(), name)
        changes = pictures.changes_of(points, name)
        told = [{**point, "change": changes.get(index, "")} for index, point in enumerate(points)]
        return Response(HistoryPointSerializer(told, many=True).data)


class Runs(Resource):
    """Benchmark runs: measurements of deployed sites."""

    model = Run
    serializer_class = RunSerializer
    lookup_field = "uuid"
    lookup_value_regex = UUID_REGEX
    writes = Action.BENCHMARK
    filter_fields = {
        "status": ["exact", "in"],
        "scenario": ["exact", "in"],
        "targets__site__name": ["exact", "in"],
        "title": ["icontains"],
        "created_at": ["gte", "lte"],
    }
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"
    dry_run_actions = {"create", "repeat", "cancel"}
    parameters = {"compare": {"runs"}}

    def rows(self) -> QuerySet[Run]:
        return selectors.with_targets(selectors.runs_visible(self.actor))

    def _accepted(self, run: Run) -> Response:
        return Response(RunSerializer(run).data, status=202, headers={"Location": f"/api/v1/jobs/{run.uuid}/"})

    @extend_schema(request=RunInput, responses={202: RunSerializer})
    def create(self, request: Request) -> Response:
        """Create a run with a copy of the scenario and the deployed revisions of the given sites, and queue the run."""
        values = self.body(RunInput)
        scenario = selectors.scenarios_visible(self.actor).filter(pk=values["scenario"]).first()
        if scenario is None:
            detail = f"The scenario {values['scenario']} does not exist, or you do not have access to it."
            raise ApiError("invalid", detail, [{"pointer": "/scenario", "detail": detail}])
        sites = all_or_none(sites_visible(self.actor), "name", values["sites"], "/sites")
        title, concurrencies = values.get("title", ""), values.get("concurrencies", ())
        runs = services.runs_create(
            actor=self.actor, scenario=scenario, sites=sites, title=title, concurrencies=concurrencies
        )
        return self._accepted(runs[0])

    def destroy(self, request: Request, uuid: UUID | None = None) -> Response:
        """Delete the run with its rounds and the output of the load tool."""
        services.run_delete(actor=self.actor, run=self.get_object())
        return Response(status=204)

    @extend_schema(request=EmptySerializer, responses={202: RunSerializer})
    @action(detail=True, methods=["post"])
    def repeat(self, request: Request, uuid: UUID | None = None) -> Response:
        """Start a run with the same parameters and sites. The sites are measured as they are deployed now."""
        return self._accepted(services.run_repeat(actor=self.actor, run=self.get_object()))

    @extend_schema(request=EmptySerializer, responses=RunSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, uuid: UUID | None = None) -> Response:
        """Cancel the run. A queued run ends immediately; the worker of a running run is asked to stop the load tool."""
        return Response(RunSerializer(services.run_cancel(actor=self.actor, run=self.get_object())).data)

    @extend_schema(responses=RoundSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def rounds(self, request: Request, uuid: UUID | None = None) -> Response:
        """List every round with its parsed figures and samples; round 0 is the warm-up."""
        rows = selectors.rounds_of(self.get_object()).defer("output")
        return Response(RoundSerializer(rows, many=True).data)

    @extend_schema(responses={(200, "text/plain"): str})
    @action(
        detail=True,
        methods=["get"],
        url_path=r"rounds/(?P<target>[0-9]{1,4})/(?P<number>[0-9]{1,4})/output",
        pagination_class=None,
        filter_backends=[],
    )
    def output(self, request: Request, uuid: UUID | None = None, target: str = "", number: str = "") -> HttpResponse:
        """Return the complete output of the load tool in one round."""
        rows = selectors.rounds_of(self.get_object())
        row = rows.filter(target__position=int(target), number=int(number)).first()
        if row is None:
            raise Http404
        return HttpResponse(row.output, content_type="text/plain; charset=utf-8")

    @extend_schema(responses=OpenApiTypes.OBJECT)
    @action(detail=True, methods=["get"], url_path="export.json", pagination_class=None, filter_backends=[])
    def export_json(self, request: Request, uuid: UUID | None = None) -> Response:
        """Export the run as JSON, including raw samples and output, so that every figure can be computed again."""
        return Response(exports.run_json(self.get_object()))

    @extend_schema(responses={(200, "text/csv"): str})
    @action(detail=True, methods=["get"], url_path="export.csv", pagination_class=None, filter_backends=[])
    def export_csv(self, request: Request, uuid: UUID | None = None) -> HttpResponse:
        """Export the run as CSV with one row for each round."""
        return HttpResponse(exports.run_csv(self.get_object()), content_type="text/csv; charset=utf-8")

    @extend_schema(responses=RunComparisonSerializer(many=True))
    @action(detail=False, methods=["get"], pagination_class=None, filter_backends=[])
    def compare(self, request: Request) -> Response:
        """Compare 2 to 20 runs: `runs` are their UUIDs, separated by commas. An unknown UUID is an error."""
        raw = [part for part in request.query_params.get("runs", "").split(",") if part]
        try:
            uuids = [UUID(part) for part in raw]
        except ValueError as error:
            raise parameter_error("runs", "Send the UUIDs of runs, separated by commas.") from error
        if not 2 <= len(uuids) <= MAX_COMPARED:
            raise parameter_error("runs", f"Select 2 to {MAX_COMPARED} runs.")
        return Response(RunComparisonSerializer(all_or_none(self.rows(), "uuid", uuids, "?runs"), many=True).data)
