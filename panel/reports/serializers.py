"""Serializers of schedules, their dates, reports, and deliveries."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from panel.api.serializers import StrictModelSerializer, StrictSerializer, TeamField
from panel.benchmarks.serializers import SuiteChoiceSerializer
from panel.hosts.models import Host
from panel.hosts.selectors import hosts_visible
from panel.reports.choices import Form
from panel.reports.models import Delivery, Occurrence, Report, Schedule

_SUITE_ONLY = "Only for the schedule of a suite."


class SiteNames(serializers.ListField):
    """Field with names of sites as input, and with the names of a schedule's sites as output."""

    def to_representation(self, data: Any) -> list[str]:
        return [row.name for row in data.all()]


class ScheduleSerializer(StrictModelSerializer):
    """A schedule. `kind` scenario needs `scenario` and `sites`, the first of which is the baseline; `kind` suite needs
    `suite`, `preset` and `host`, and accepts `chosen`, a part of the suite. `webhook_secret` is write-only.
    """

    team = TeamField(required=False, allow_null=True)
    scenario = serializers.IntegerField(source="scenario_id", min_value=1, required=False, allow_null=True)
    host = serializers.SlugRelatedField(
        slug_field="name", queryset=Host.objects.all(), required=False, allow_null=True, help_text=_SUITE_ONLY
    )
    chosen = SuiteChoiceSerializer(required=False, help_text=_SUITE_ONLY)
    sites = SiteNames(child=serializers.CharField(max_length=63), required=False, max_length=8)
    recipients = serializers.ListField(child=serializers.CharField(max_length=254), required=False, max_length=20)
    attachments = serializers.ListField(child=serializers.ChoiceField(choices=Form.choices), required=False)
    webhook_secret = serializers.CharField(write_only=True, required=False, allow_blank=True, max_length=500)
    has_webhook_secret = serializers.SerializerMethodField()
    run_as = serializers.CharField(source="run_as.username", read_only=True, default=None, allow_null=True)

    def validate_host(self, host: Host | None) -> Host | None:
        if host is not None and not hosts_visible(self.context["request"].user).filter(pk=host.pk).exists():
            self.fields["host"].fail("does_not_exist", slug_name="name", value=host.name)
        return host

    class Meta:
        model = Schedule
        fields = [
            *(
                "id",
                "name",
                "team",
                "cron",
                "timezone",
                "kind",
                "scenario",
                "sites",
                "suite",
                "preset",
                "chosen",
                "host",
            ),
            *("overlap", "grace_minutes", "notify", "recipients", "attachments", "webhook_url", "webhook_secret"),
            *("has_webhook_secret", "keep_reports", "keep_days", "is_paused", "next_due_at", "run_as"),
            *("created_at", "updated_at"),
        ]
        read_only_fields = ["id", "is_paused", "next_due_at", "created_at", "updated_at"]

    def get_has_webhook_secret(self, row: Schedule) -> bool:
        return bool(row.webhook_secret)


class OccurrenceSerializer(serializers.ModelSerializer[Occurrence]):
    """One date of a schedule. Consecutive missed dates share one entry: `dates` is their number, `due_at` the last of
    them.
    """

    run = serializers.UUIDField(source="run.uuid", read_only=True, default=None, allow_null=True)
    suite = serializers.UUIDField(source="suite_run.uuid", read_only=True, default=None, allow_null=True)
    report = serializers.SerializerMethodField()

    class Meta:
        model = Occurrence
        fields = [
            *("due_at", "dates", "by_hand", "status", "reason", "run", "suite", "report"),
            *("started_at", "finished_at"),
        ]

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_report(self, row: Occurrence) -> str | None:
        report = getattr(row, "report", None)
        return str(report.uuid) if report else None


class DatesSerializer(serializers.Serializer[Any]):
    explained = serializers.CharField()
    dates = serializers.ListField(child=serializers.DateTimeField())


class ReportSerializer(serializers.ModelSerializer[Report]):
    schedule = serializers.CharField(source="schedule.name", read_only=True, default=None, allow_null=True)
    run = serializers.UUIDField(source="run.uuid", read_only=True, default=None, allow_null=True)
    suite = serializers.UUIDField(source="suite_run.uuid", read_only=True, default=None, allow_null=True)
    changes = serializers.SerializerMethodField()
    around = serializers.SerializerMethodField()
    notes = serializers.SerializerMethodField()
    warnings = serializers.SerializerMethodField()

    class Meta:
        model = Report
        fields = [
            *("uuid", "title", "schedule", "run", "suite", "outcome", "headline"),
            *("changes", "around", "notes", "warnings", "created_at"),
        ]

    def get_changes(self, row: Report) -> list[str]:
        return list(row.content["changes"])

    def get_around(self, row: Report) -> list[str]:
        return list(row.content["around"])

    def get_notes(self, row: Report) -> list[str]:
        return list(row.content["notes"])

    def get_warnings(self, row: Report) -> list[str]:
        return list(row.content["warnings"])


class ReportInput(StrictSerializer):
    """The run or suite run of a new report: exactly one of them, which must have ended."""

    run = serializers.UUIDField(required=False)
    suite = serializers.UUIDField(required=False)


class AttemptSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    words = serializers.CharField()
    seconds = serializers.FloatField()


class DeliverySerializer(serializers.ModelSerializer[Delivery]):
    log = AttemptSerializer(many=True, read_only=True)

    class Meta:
        model = Delivery
        fields = ["uuid", "channel", "target", "status", "attempts", "due_at", "log", "created_at", "finished_at"]
