"""REST API of suite runs: list, start, result tables, comparisons, and exports."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import UUID_REGEX, Resource, all_or_none, one
from panel.api.problems import parameter_error
from panel.api.serializers import EmptySerializer
from panel.benchmarks import selectors
from panel.benchmarks.models import SuiteRun
from panel.benchmarks.serializers import NetworkSerializer, SuiteChoiceSerializer
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites import comparing as suite_comparing
from panel.benchmarks.suites import exports as suite_exports
from panel.benchmarks.suites import results as suite_results
from panel.benchmarks.suites import services as suite_services
from panel.benchmarks.suites.choosing import stored_choice
from panel.benchmarks.suites.definitions import PRESETS
from panel.hosts.selectors import hosts_visible


class SuiteInput(SuiteChoiceSerializer):
    """Request to start a suite: the suite, the preset (full suite or preview), the host, and optionally a part of the
    suite.
    """

    suite = serializers.ChoiceField(choices=list(SUITES))
    preset = serializers.ChoiceField(choices=list(PRESETS))
    host = serializers.CharField(max_length=63)


class CaseSerializer(serializers.Serializer[Any]):
    """One case of a suite run: one load, measured in one run on every configuration that supports the load's protocol.
    `run` is the UUID of the case's run, null before the case starts.
    """

    title = serializers.CharField()
    status = serializers.CharField()
    run = serializers.UUIDField(allow_null=True)


class SuiteRunSerializer(serializers.ModelSerializer[SuiteRun]):
    """A suite run.

    `shortened`: whether rounds are fewer and shorter than published. `part`: the chosen part of the suite, in words;
    empty for the whole suite. `application`: the application under load, in words; empty for a suite of files.
    `network`: the chosen network link; null if each case uses its published link. `load_from`: the host of the load
    generator; empty if the web servers' host generates the load. `expected_s`: estimated duration of all cases, from
    the published figures.
    """

    host = serializers.CharField(source="host_name", read_only=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, default=None, allow_null=True)
    left_out = serializers.ListField(child=serializers.CharField(), read_only=True)
    shortened = serializers.SerializerMethodField()
    part = serializers.SerializerMethodField()
    application = serializers.SerializerMethodField()
    network = serializers.SerializerMethodField()
    load_from = serializers.CharField(source="choice.load_from", read_only=True)
    expected_s = serializers.SerializerMethodField()
    setups = serializers.SerializerMethodField()
    cases = serializers.SerializerMethodField()

    class Meta:
        model = SuiteRun
        fields = [
            *(
                "uuid",
                "title",
                "suite",
                "preset",
                "shortened",
                "part",
                "application",
                "network",
                "host",
                "load_from",
                "setups",
                "left_out",
                "status",
                "cases",
            ),
            *("expected_s", "requested_by", "created_at", "finished_at"),
        ]

    def get_shortened(self, row: SuiteRun) -> bool:
        return row.preset != "full"

    def get_part(self, row: SuiteRun) -> str:
        return suite_results.part_words(row)

    def get_application(self, row: SuiteRun) -> str:
        return row.choice.application_words(SUITES[row.suite])

    @extend_schema_field(NetworkSerializer(allow_null=True))
    def get_network(self, row: SuiteRun) -> dict[str, object] | None:
        found: dict[str, object] | None = row.chosen.get("network")
        return found

    def get_expected_s(self, row: SuiteRun) -> float:
        return round(suite_results.expected_s(row))

    def get_setups(self, row: SuiteRun) -> list[str]:
        return [item["slug"] for item in row.setups]

    @extend_schema_field(CaseSerializer(many=True))
    def get_cases(self, row: SuiteRun) -> list[dict[str, object]]:
        return [
            {"title": line.case.title, "status": line.status, "run": str(line.run.uuid) if line.run else None}
            for line in suite_results.lines(row)
        ]


class Suites(Resource):
    """Suite runs: published benchmarks, repeated on your own hosts with private instances of their web servers."""

    model = SuiteRun
    serializer_class = SuiteRunSerializer
    lookup_field = "uuid"
    lookup_value_regex = UUID_REGEX
    writes = Action.BENCHMARK
    filter_fields = {
        "suite": ["exact", "in"],
        "preset": ["exact"],
        "status": ["exact", "in"],
        "host_name": ["exact", "in"],
        "created_at": ["gte", "lte"],
    }
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"
    dry_run_actions = {"create", "repeat", "cancel"}
    parameters = {"compare": {"suites"}}

    def rows(self) -> QuerySet[SuiteRun]:
        return selectors.with_runs(selectors.suites_visible(self.actor))

    @extend_schema(request=SuiteInput, responses={202: SuiteRunSerializer})
    def create(self, request: Request) -> Response:
        """Start a suite run on the web servers of the host: store a copy of the suite, and queue its first case."""
        values = self.body(SuiteInput)
        host = one(hosts_visible(self.actor), "name", values["host"], "/host")
        row = suite_services.suite_start(
            actor=self.actor,
            suite=values["suite"],
            preset=values["preset"],
            host=host,
            setups=values.get("setups", ()),
            choice=stored_choice(values),
        )
        return self._accepted(row)

    def _accepted(self, row: SuiteRun) -> Response:
        headers = {"Location": f"/api/v1/jobs/{row.uuid}/"}
        return Response(SuiteRunSerializer(row).data, status=202, headers=headers)

    def destroy(self, request: Request, uuid: UUID | None = None) -> Response:
        """Delete the suite run with the runs of its cases."""
        suite_services.suite_delete(actor=self.actor, row=self.get_object())
        return Response(status=204)

    @extend_schema(request=EmptySerializer, responses={202: SuiteRunSerializer})
    @action(detail=True, methods=["post"])
    def repeat(self, request: Request, uuid: UUID | None = None) -> Response:
        """Start the suite again with the same preset and configurations."""
        return self._accepted(suite_services.suite_repeat(actor=self.actor, row=self.get_object()))

    @extend_schema(request=EmptySerializer, responses=SuiteRunSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, uuid: UUID | None = None) -> Response:
        """Cancel the suite run: stop the running case, and start no further case."""
        return Response(SuiteRunSerializer(suite_services.suite_cancel(actor=self.actor, row=self.get_object())).data)

    @extend_schema(responses=OpenApiTypes.OBJECT)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def tables(self, request: Request, uuid: UUID | None = None) -> Response:
        """Return the result tables in the layout of the published benchmark, with the published figures."""
        return Response(
            {"tables": [suite_exports.table_json(table) for table in suite_results.tables(self.get_object())]}
        )

    @extend_schema(responses=OpenApiTypes.OBJECT)
    @action(detail=False, methods=["get"], pagination_class=None, filter_backends=[])
    def compare(self, request: Request) -> Response:
        """Compare several runs of one suite: `suites` are their UUIDs, separated by commas. An unknown UUID is an
        error.
        """
        try:
            uuids = [UUID(part) for part in request.query_params.get("suites", "").split(",") if part]
        except ValueError as error:
            raise parameter_error("suites", "Send the UUIDs of suite runs, separated by commas.") from error
        rows = all_or_none(self.rows(), "uuid", uuids, "?suites")
        return Response({"tables": [suite_exports.table_json(table) for table in suite_comparing.compared(rows)]})

    @extend_schema(responses=OpenApiTypes.OBJECT)
    @action(detail=True, methods=["get"], url_path="export.json", pagination_class=None, filter_backends=[])
    def export_json(self, request: Request, uuid: UUID | None = None) -> Response:
        """Export the suite run as JSON: tables, published figures, and every run with its raw output and samples."""
        return Response(suite_exports.suite_json(self.get_object()))

    @extend_schema(responses={(200, "text/csv"): str})
    @action(detail=True, methods=["get"], url_path="export.csv", pagination_class=None, filter_backends=[])
    def export_csv(self, request: Request, uuid: UUID | None = None) -> HttpResponse:
        """Export the result tables as CSV with one row for each table cell."""
        return HttpResponse(suite_exports.suite_csv(self.get_object()), content_type="text/csv; charset=utf-8")

    @extend_schema(responses={(200, "text/html"): str})
    @action(detail=True, methods=["get"], url_path="report.html", pagination_class=None, filter_backends=[])
    def report(self, request: Request, uuid: UUID | None = None) -> HttpResponse:
        """Return the result of the suite run as one self-contained HTML file with styles and charts."""
        return HttpResponse(suite_exports.suite_html(self.get_object()), content_type="text/html; charset=utf-8")
