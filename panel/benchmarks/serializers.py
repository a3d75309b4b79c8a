"""Serializers for scenarios and runs, and for the parameters that start a run or a suite."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from panel.api.serializers import StrictModelSerializer, StrictSerializer, TeamField
from panel.benchmarks.models import Round, Run, RunTarget, Scenario
from panel.benchmarks.scenarios.ready_made import QUICK
from panel.benchmarks.suites import SUITES, links
from panel.benchmarks.suites.definitions import PROTOCOLS

APPLICATIONS = [item.slug for suite in SUITES.values() for item in suite.applications]
SETUPS = sorted({setup.slug for suite in SUITES.values() for setup in suite.setups})


class ScenarioSerializer(StrictModelSerializer):
    """A scenario: a load for benchmarks of sites. The keys of `arguments` depend on the tool."""

    team = TeamField(required=False, allow_null=True)

    class Meta:
        model = Scenario
        fields = [
            "id",
            "name",
            "team",
            "tool",
            "arguments",
            "paths",
            "rounds",
            "warmup_s",
            "timeout_s",
            "allowed_error_percent",
            "created_at",
            "updated_at",
        ]
        read_only_fields = ["id", "created_at", "updated_at"]


class QuickInput(StrictSerializer):
    quick = serializers.ChoiceField(choices=[(quick.slug, quick.name) for quick in QUICK])


class RunTargetSerializer(serializers.ModelSerializer[RunTarget]):
    site = serializers.CharField(source="site.name", read_only=True, default=None, allow_null=True)
    revision = serializers.IntegerField(source="revision.number", read_only=True, default=None, allow_null=True)

    class Meta:
        model = RunTarget
        fields = ["position", "site", "revision", "label", "engine", "base_url"]


class RunSerializer(serializers.ModelSerializer[Run]):
    scenario = serializers.CharField(source="scenario.name", read_only=True, default=None, allow_null=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, default=None, allow_null=True)
    parameters = serializers.DictField(read_only=True)
    reasons = serializers.ListField(child=serializers.CharField(), read_only=True)
    summary = serializers.DictField(read_only=True)
    targets = RunTargetSerializer(many=True, read_only=True)

    class Meta:
        model = Run
        fields = [
            "uuid",
            "title",
            "scenario",
            "status",
            "reasons",
            "error",
            "progress",
            "parameters",
            "targets",
            "summary",
            "requested_by",
            "created_at",
            "started_at",
            "finished_at",
        ]


class RoundSerializer(serializers.ModelSerializer[Round]):
    target = serializers.IntegerField(source="target.position", read_only=True)
    argv = serializers.ListField(child=serializers.CharField(), read_only=True)
    metrics = serializers.DictField(read_only=True)
    samples = serializers.DictField(read_only=True)

    class Meta:
        model = Round
        fields = [
            "target",
            "number",
            "argv",
            "exit_code",
            "metrics",
            "samples",
            "error",
            "started_at",
            "finished_at",
        ]


class RunInput(StrictSerializer):
    """A run to start: its scenario and sites. The first site is the baseline of the ratios."""

    scenario = serializers.IntegerField(min_value=1)
    sites = serializers.ListField(child=serializers.CharField(max_length=63), allow_empty=False, max_length=8)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)
    concurrencies = serializers.ListField(
        child=serializers.IntegerField(min_value=1),
        required=False,
        max_length=8,
        help_text="Starts one run for each number of concurrent connections; the response is the first run.",
    )


class RunComparisonSerializer(serializers.Serializer[Any]):
    uuid = serializers.UUIDField()
    title = serializers.CharField()
    status = serializers.CharField()
    fingerprint = serializers.DictField()
    summary = serializers.DictField()


class HistoryPointSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    label = serializers.CharField(help_text="The benchmarked site or instance.")  # type: ignore[assignment]
    title = serializers.CharField()
    value = serializers.FloatField()
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    change = serializers.CharField(
        help_text="Ratio to the previous level, and the p-value of the change; empty without a change."
    )


def _limited(name: str, **more: Any) -> serializers.FloatField:
    _label, low, high = links.LIMITS[name]
    return serializers.FloatField(min_value=low, max_value=high, **more)


class NetworkSerializer(StrictSerializer):
    """An emulated network link, the same in both directions. In each direction, the delay varies by at most plus or
    minus the jitter. A full queue drops new packets (drop-tail).
    """

    bandwidth_mbps = _limited("bandwidth_mbps")
    rtt_ms = _limited("rtt_ms", default=0.0)
    jitter_ms = _limited("jitter_ms", default=0.0, help_text="Jitter in ms, at most half of `rtt_ms`.")
    loss_percent = _limited("loss_percent", default=0.0)
    queue_packets = serializers.IntegerField(
        min_value=int(links.LIMITS["queue_packets"][1]), max_value=int(links.LIMITS["queue_packets"][2]), default=1000
    )


class SuiteChoiceSerializer(StrictSerializer):
    """The chosen part of a suite, and its conditions.

    `setups`: configurations of web servers; by default all that the host can run. `cases` and `protocols`: the part of
    the suite to run; by default the whole suite. A case is the id of a published case, such as `small-multiplexed`, or
    a row of its table, such as `small-multiplexed-0`. `application`: the application under load, for
    php-application-2020 (default: the bundled shop). `paths`: pages of the application, instead of the suite's list.
    `network`: a network link for all cases, instead of their published links. A link uses `tc netem` if the host's
    kernel has it, otherwise the bundled emulator; `link` forces the emulator. `load_from`: the host of the load
    generator and of the emulated link, if different from the web servers' host.
    """

    setups = serializers.ListField(child=serializers.ChoiceField(choices=SETUPS), required=False, max_length=16)
    cases = serializers.ListField(child=serializers.CharField(max_length=80), required=False, max_length=64)
    protocols = serializers.ListField(
        child=serializers.ChoiceField(choices=list(PROTOCOLS)), required=False, max_length=3
    )
    application = serializers.ChoiceField(choices=APPLICATIONS, required=False)
    paths = serializers.ListField(child=serializers.CharField(max_length=2000), required=False, max_length=200)
    network = NetworkSerializer(required=False)
    link = serializers.ChoiceField(choices=[links.EMULATOR], required=False)
    load_from = serializers.CharField(max_length=63, required=False)
