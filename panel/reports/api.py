"""REST API of schedules and reports: all actions of the pages, and the reports in every format."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import UUID_REGEX, Resource, all_or_none, one
from panel.api.problems import ApiError, parameter_error
from panel.api.serializers import EmptySerializer
from panel.benchmarks.selectors import runs_visible, scenarios_visible, suites_visible
from panel.core.errors import ApplicationError
from panel.core.zones import time_zones
from panel.reports import cron, selectors, services
from panel.reports.choices import Form
from panel.reports.document import from_json, to_json
from panel.reports.models import Report, Schedule
from panel.reports.serializers import (
    DatesSerializer,
    DeliverySerializer,
    OccurrenceSerializer,
    ReportInput,
    ReportSerializer,
    ScheduleSerializer,
)
from panel.reports.writers import WRITERS
from panel.websites.selectors import sites_visible

DATES = 5
MOST_OCCURRENCES = 100


class Schedules(Resource):
    """Schedules of benchmarks, with the recipients of their reports."""

    model = Schedule
    serializer_class = ScheduleSerializer
    writes = Action.BENCHMARK
    versioned = True
    filter_fields = {
        "name": ["exact", "in", "icontains"],
        "kind": ["exact"],
        "is_paused": ["exact"],
        "team__slug": ["exact", "in", "isnull"],
    }
    ordering_fields = ("id", "name", "created_at", "next_due_at")
    ordering = "name"
    dry_run_actions = {"create", "partial_update", "destroy", "pause", "resume", "run_now"}
    parameters = {"dates": {"cron", "timezone"}}

    def rows(self) -> QuerySet[Schedule]:
        return selectors.schedules_visible(self.actor)

    def _values(self, partial: bool = False) -> dict[str, Any]:
        """Return the values of the request body for the services, with objects in place of names and ids.
        Objects that the user cannot see are errors.
        """
        values = self.body(ScheduleSerializer, partial=partial)
        if "scenario_id" in values:
            values["scenario"] = self._scenario(values.pop("scenario_id"))
        if "sites" in values:
            values["sites"] = all_or_none(sites_visible(self.actor), "name", values["sites"], "/sites")
        return values

    def _scenario(self, pk: int | None) -> Any:
        found = None if pk is None else scenarios_visible(self.actor).filter(pk=pk).first()
        if pk is not None and found is None:
            detail = f"The scenario {pk} does not exist, or you do not have access to it."
            raise ApiError("invalid", detail, [{"pointer": "/scenario", "detail": detail}])
        return found

    def create(self, request: Request) -> Response:
        """Create a schedule. Its runs have the permissions of the user who saved the schedule last."""
        schedule = services.schedule_create(actor=self.actor, **self._values())
        return self.answer(schedule, status=201, location=f"/api/v1/schedules/{schedule.pk}/")

    def partial_update(self, request: Request, pk: str = "") -> Response:
        """Change a schedule. Without `webhook_secret`, the stored secret is kept unless `webhook_url` changes; ""
        removes it.
        """
        schedule = self.get_object()
        expected = self.expected_version(schedule)
        values = self._values(partial=True)
        saved = services.schedule_update(actor=self.actor, schedule=schedule, expected_version=expected, **values)
        return self.answer(self.rows().get(pk=saved.pk))

    def destroy(self, request: Request, pk: str = "") -> Response:
        """Delete a schedule. Its reports and runs are kept."""
        schedule = self.get_object()
        self.expected_version(schedule)
        services.schedule_delete(actor=self.actor, schedule=schedule)
        return Response(status=204)

    @extend_schema(request=EmptySerializer, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str = "") -> Response:
        """Pause the schedule: no run starts until it is resumed. A run in progress continues."""
        return self.answer(services.schedule_pause(actor=self.actor, schedule=self.get_object()))

    @extend_schema(request=EmptySerializer, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str = "") -> Response:
        """Resume the schedule from its next date on."""
        return self.answer(services.schedule_resume(actor=self.actor, schedule=self.get_object()))

    @extend_schema(request=EmptySerializer, responses={202: OccurrenceSerializer})
    @action(detail=True, methods=["post"], url_path="run-now")
    def run_now(self, request: Request, pk: str = "") -> Response:
        """Start a run of the schedule now, in addition to its dates. The run is a separate job; its report follows when
        it ends.
        """
        row = services.schedule_run_now(actor=self.actor, schedule=self.get_object())
        job = row.run or row.suite_run
        headers = {"Location": f"/api/v1/jobs/{job.uuid}/"} if job else {}
        return Response(OccurrenceSerializer(row).data, status=202, headers=headers)

    @extend_schema(responses=OccurrenceSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def occurrences(self, request: Request, pk: str = "") -> Response:
        """List the last hundred dates of the schedule and their results, newest first."""
        rows = selectors.occurrences_of(self.get_object())[:MOST_OCCURRENCES]
        return Response(OccurrenceSerializer(rows, many=True).data)

    @extend_schema(
        responses=DatesSerializer,
        parameters=[OpenApiParameter("cron", str, required=True), OpenApiParameter("timezone", str)],
    )
    @action(detail=False, methods=["get"], pagination_class=None, filter_backends=[])
    def dates(self, request: Request) -> Response:
        """Explain a cron expression in words, and list its next five dates."""
        zone = request.query_params.get("timezone", "UTC")
        if zone not in time_zones():
            raise parameter_error("timezone", "Send a time zone such as Europe/Vienna or UTC.")
        expression = request.query_params.get("cron", "")[:120]
        try:
            words = cron.explained(expression)
            found = cron.following(expression, zone, timezone.now(), DATES)
        except ApplicationError as error:
            raise parameter_error("cron", error.message) from error
        return Response(DatesSerializer({"explained": words, "dates": found}).data)


class Reports(Resource):
    """Reports: the result of a run or suite run, and its changes since the previous one, with their significance."""

    model = Report
    serializer_class = ReportSerializer
    lookup_field = "uuid"
    lookup_value_regex = UUID_REGEX
    writes = Action.BENCHMARK
    filter_fields = {
        "outcome": ["exact", "in"],
        "schedule": ["exact", "in"],
        "title": ["icontains"],
        "created_at": ["gte", "lte"],
    }
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"
    dry_run_actions = {"create", "destroy", "send"}

    def rows(self) -> QuerySet[Report]:
        return selectors.reports_visible(self.actor)

    @extend_schema(request=ReportInput, responses={201: ReportSerializer})
    def create(self, request: Request) -> Response:
        """Create a report of an ended run or suite run, independent of any schedule."""
        values = self.body(ReportInput)
        if len(values) != 1:
            words = "Send the UUID of either a run or a suite run."
            raise ApiError("invalid", words, [{"pointer": f"/{name}", "detail": words} for name in ("run", "suite")])
        run = suite_run = None
        if "run" in values:
            run = one(runs_visible(self.actor), "uuid", values["run"], "/run")
        else:
            suite_run = one(suites_visible(self.actor), "uuid", values["suite"], "/suite")
        report = services.report_create(actor=self.actor, run=run, suite_run=suite_run)
        return self.answer(report, status=201, location=f"/api/v1/reports/{report.uuid}/")

    def destroy(self, request: Request, uuid: UUID | None = None) -> Response:
        """Delete a report. Its run is kept."""
        services.report_delete(actor=self.actor, report=self.get_object())
        return Response(status=204)

    @extend_schema(request=EmptySerializer, responses={202: DeliverySerializer(many=True)})
    @action(detail=True, methods=["post"], pagination_class=None, filter_backends=[])
    def send(self, request: Request, uuid: UUID | None = None) -> Response:
        """Send the report again to all recipients of its schedule."""
        made = services.report_send(actor=self.actor, report=self.get_object())
        return Response(DeliverySerializer(made, many=True).data, status=202)

    @extend_schema(responses=DeliverySerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def deliveries(self, request: Request, uuid: UUID | None = None) -> Response:
        """List the deliveries of the report, with all their attempts."""
        return Response(DeliverySerializer(self.get_object().deliveries.all(), many=True).data)

    def _form(self, form: str) -> HttpResponse:
        writer = WRITERS[form]
        content = writer.write(from_json(self.get_object().content))
        return HttpResponse(content, content_type=writer.content_type)

    @extend_schema(responses=OpenApiTypes.OBJECT)
    @action(detail=True, methods=["get"], url_path="report.json", pagination_class=None, filter_backends=[])
    def as_json(self, request: Request, uuid: UUID | None = None) -> Response:
        """Return the complete report as JSON: sentences, tables, charts as Vega-Lite."""
        return Response(to_json(from_json(self.get_object().content)))

    @extend_schema(responses={(200, "text/html"): str})
    @action(detail=True, methods=["get"], url_path="report.html", pagination_class=None, filter_backends=[])
    def as_html(self, request: Request, uuid: UUID | None = None) -> HttpResponse:
        """Return the report as one self-contained HTML file with styles and charts."""
        return self._form(Form.HTML)

    @extend_schema(responses={(200, "application/pdf"): bytes})
    @action(detail=True, methods=["get"], url_path="report.pdf", pagination_class=None, filter_backends=[])
    def as_pdf(self, request: Request, uuid: UUID | None = None) -> HttpResponse:
        """Return the report as PDF."""
        return self._form(Form.PDF)

    @extend_schema(responses={(200, "application/vnd.oasis.opendocument.spreadsheet"): bytes})
    @action(detail=True, methods=["get"], url_path="report.ods", pagination_class=None, filter_backends=[])
    def as_ods(self, request: Request, uuid: UUID | None = None) -> HttpResponse:
        """Return the report as a spreadsheet with one sheet per table."""
        return self._form(Form.ODS)

    @extend_schema(responses={(200, "text/csv"): str})
    @action(detail=True, methods=["get"], url_path="report.csv", pagination_class=None, filter_backends=[])
    def as_csv(self, request: Request, uuid: UUID | None = None) -> HttpResponse:
        """Return the report as CSV with one row for each cell of its tables."""
        return self._form(Form.CSV)
