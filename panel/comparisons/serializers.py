"""Serializers of server comparisons and replays."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from panel.api.serializers import StrictSerializer, Truth
from panel.benchmarks.records import FigureRatio, TargetSummary
from panel.comparisons import results
from panel.comparisons.models import Comparison, Contender, ContenderStatus


class ComparisonServerSerializer(serializers.Serializer[Any]):
    """One web server of a comparison. The first is the web server that the site had when the comparison started; its
    figures are the baseline of the ratios.
    """

    position = serializers.IntegerField()
    web_server = serializers.IntegerField(allow_null=True)
    label = serializers.CharField()  # type: ignore[assignment]
    status = serializers.ChoiceField(choices=ContenderStatus.choices)
    detail = serializers.CharField(allow_blank=True, help_text="Why the deployment failed, or which responses differ.")
    serves_site = serializers.BooleanField()
    may_switch = serializers.BooleanField()
    figures = serializers.DictField(
        help_text="An object for each metric, by the metric's name: `value`, `low` and `high` (bounds of the "
        "confidence interval), `confidence`, and `rounds`. Empty if nothing was measured."
    )
    ratios = serializers.DictField(
        help_text="Ratios to the baseline by metric name, like `figures`, each with a verdict: "
        "higher, lower, no_difference, or too_few."
    )


class ComparisonSerializer(serializers.ModelSerializer[Comparison]):
    site = serializers.CharField(source="site.name", read_only=True)
    load = serializers.DictField(read_only=True)
    left_out = serializers.ListField(child=serializers.CharField(), read_only=True)
    run = serializers.UUIDField(source="run.uuid", read_only=True, default=None, allow_null=True)
    switch = serializers.UUIDField(source="switch.uuid", read_only=True, default=None, allow_null=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, default=None, allow_null=True)
    advice = serializers.SerializerMethodField()
    servers = serializers.SerializerMethodField()

    class Meta:
        model = Comparison
        fields = [
            "uuid",
            "site",
            "load",
            "is_replay",
            "left_out",
            "status",
            "phase",
            "error",
            "remains",
            "run",
            "switch",
            "advice",
            "servers",
            "requested_by",
            "created_at",
            "started_at",
            "finished_at",
        ]

    def get_advice(self, comparison: Comparison) -> str:
        return results.advice(comparison)

    @extend_schema_field(ComparisonServerSerializer(many=True))
    def get_servers(self, comparison: Comparison) -> list[dict[str, object]]:
        targets, ratios = results.by_contender(comparison)
        return [_server(row, targets, ratios.get(row.contender.pk, {})) for row in results.rows(comparison)]


def _server(row: results.Row, targets: dict[int, TargetSummary], ratios: dict[str, FigureRatio]) -> dict[str, object]:
    contender: Contender = row.contender
    return {
        "position": contender.position,
        "web_server": contender.web_server_id,
        "label": contender.label,
        "status": contender.status,
        "detail": contender.detail,
        "serves_site": row.is_now,
        "may_switch": row.may_switch,
        "figures": targets[contender.pk]["figures"] if contender.pk in targets else {},
        "ratios": ratios,
    }


class ComparisonInput(StrictSerializer):
    """A server comparison to start. `load` is "replay" (the site's own access log), "scenario:ID" or "quick:SLUG". Only
    a replay uses `queries`, `other_methods`, `concurrency`, `duration_s` and `rounds`.
    """

    site = serializers.CharField(max_length=63)
    web_servers = serializers.ListField(
        child=serializers.IntegerField(min_value=1),
        required=False,
        allow_empty=False,
        max_length=8,
        help_text="Other web servers on the site's host. Omit the field for all of them.",
    )
    load = serializers.CharField(max_length=120)
    queries = Truth(default=False, help_text="Replay query strings, which can contain secrets.")
    other_methods = Truth(
        default=False,
        help_text=(
            "Replay POST, DELETE, and OPTIONS with empty bodies, repeatedly on every web server. This can "
            "change or delete data of the application. Requires wrk on the host."
        ),
    )
    concurrency = serializers.IntegerField(default=16, min_value=1, max_value=1000)
    duration_s = serializers.IntegerField(default=10, min_value=1, max_value=600)
    rounds = serializers.IntegerField(default=6, min_value=3, max_value=30)


class SwitchInput(StrictSerializer):
    """A move of the compared site. `position` is the position of the new web server in the comparison's list `servers`.
    Without `confirm`, the move is only planned, and the plan waits for confirmation.
    """

    position = serializers.IntegerField(min_value=0, max_value=100)
    confirm = Truth(default=False)
    accept_drift = Truth(default=False)


class ReplayShare(serializers.Serializer[Any]):
    method = serializers.CharField()
    path = serializers.CharField()
    percent = serializers.IntegerField()


class ReplaySerializer(serializers.Serializer[Any]):
    requests = serializers.IntegerField(help_text="Log lines that can be replayed.")
    left_out = serializers.IntegerField(help_text="Log lines that are skipped.")
    reasons = serializers.ListField(
        child=serializers.CharField(), help_text="Reasons for skipped lines, with their counts."
    )
    paths = ReplayShare(many=True)
