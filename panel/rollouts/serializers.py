"""Serializers of rollouts. The hook's URL may contain a secret and is never returned."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from panel.api.serializers import StrictSerializer, Truth
from panel.rollouts.choices import WaveStatus
from panel.rollouts.models import MOST_SOAK_S, Part, Rollout, Wave


class GateFindingSerializer(serializers.Serializer[dict[str, object]]):
    """Result of one gate, a check that a wave has to pass; `passed` is null if the gate could not judge."""

    gate = serializers.CharField()
    passed = serializers.BooleanField(allow_null=True)
    words = serializers.CharField()
    at = serializers.DateTimeField()


class PartSerializer(serializers.ModelSerializer[Part]):
    """One host of a wave: its deployment and its rollback. `kept` is the reason why the host was not rolled back, "" if
    there is none.
    """

    host = serializers.CharField(source="deployment.host.name", read_only=True)
    deployment = serializers.UUIDField(source="deployment.uuid", read_only=True)
    status = serializers.CharField(source="deployment.status", read_only=True)
    undo = serializers.UUIDField(source="undo.uuid", read_only=True, allow_null=True, default=None)
    undo_status = serializers.CharField(source="undo.status", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Part
        fields = ["host", "deployment", "status", "undo", "undo_status", "kept"]


class WaveSerializer(serializers.ModelSerializer[Wave]):
    status = serializers.ChoiceField(choices=WaveStatus.choices, read_only=True)
    evidence = serializers.SerializerMethodField()
    approved_by = serializers.CharField(source="approved_by.username", read_only=True, allow_null=True, default=None)
    hosts = PartSerializer(source="parts", many=True, read_only=True)

    class Meta:
        model = Wave
        fields = [
            "position",
            "status",
            "evidence",
            "started_at",
            "deployed_at",
            "finished_at",
            "approved_by",
            "approved_at",
            "hosts",
        ]

    @extend_schema_field(GateFindingSerializer(many=True))
    def get_evidence(self, wave: Wave) -> list[dict[str, object]]:
        return list(wave.evidence)


class RolloutSerializer(serializers.ModelSerializer[Rollout]):
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, allow_null=True, default=None)
    has_hook = serializers.SerializerMethodField()
    waves = WaveSerializer(many=True, read_only=True)

    class Meta:
        model = Rollout
        fields = [
            "uuid",
            "batch",
            "status",
            "is_undoing",
            "progress",
            "error",
            "start_at",
            "soak_s",
            "most_errors",
            "most_slower",
            "has_hook",
            "needs_approval",
            "needs_other_person",
            "requested_by",
            "waves",
            "created_at",
            "started_at",
            "finished_at",
        ]

    def get_has_hook(self, rollout: Rollout) -> bool:
        return bool(rollout.hook_url)


class RolloutInput(StrictSerializer):
    deployment = serializers.UUIDField(
        help_text="UUID of a plan that waits for confirmation; the rollout deploys all plans of the same batch."
    )
    first = serializers.IntegerField(default=1, min_value=1, max_value=10_000)
    percent = serializers.IntegerField(default=10, min_value=1, max_value=100)
    start_at = serializers.DateTimeField(default=None, allow_null=True)
    soak_s = serializers.IntegerField(default=300, min_value=0, max_value=MOST_SOAK_S)
    most_errors = serializers.FloatField(default=1.0, min_value=0, max_value=100)
    most_slower = serializers.IntegerField(default=100, min_value=0, max_value=10_000)
    hook_url = serializers.CharField(default="", allow_blank=True, max_length=1000)
    needs_approval = Truth(default=False)
    needs_other_person = Truth(default=False)
    accept_drift = Truth(default=False)
    deploy_anyway = Truth(default=False)
