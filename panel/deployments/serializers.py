"""Serializers for deployments, revisions and drift; content of secret files is never included."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from panel.api.serializers import StrictSerializer, TagsListField, Truth
from panel.deployments.models import Deployment, DeploymentKind, Drift, PinnedFile, Revision, Step
from panel.deployments.plan import plan_to_json

PLANNABLE = [DeploymentKind.DEPLOY, DeploymentKind.DISABLE, DeploymentKind.OVERWRITE]


class RevisionSerializer(serializers.ModelSerializer[Revision]):
    site = serializers.CharField(source="site.name", read_only=True)
    host = serializers.CharField(source="web_server.host.name", read_only=True)
    web_server = serializers.IntegerField(source="web_server_id", read_only=True)
    created_by = serializers.CharField(source="created_by.username", read_only=True, default=None, allow_null=True)
    files = serializers.ListField(child=serializers.DictField(), read_only=True)

    class Meta:
        model = Revision
        fields = ["id", "site", "number", "host", "web_server", "digest", "files", "created_at", "created_by"]


class RevisionFileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    mode = serializers.IntegerField()
    sha256 = serializers.CharField()
    link = serializers.CharField(allow_blank=True)
    secret = serializers.BooleanField()
    content = serializers.CharField(
        allow_null=True, help_text="Text of the file; null if the file is a secret or a symbolic link."
    )


class StepSerializer(serializers.ModelSerializer[Step]):
    argv = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Step
        fields = ["position", "name", "status", "argv", "exit_code", "output", "started_at", "finished_at"]


class DeploymentSerializer(serializers.ModelSerializer[Deployment]):
    host = serializers.CharField(source="host.name", read_only=True)
    sites = serializers.SerializerMethodField()
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, default=None, allow_null=True)
    is_finished = serializers.BooleanField(read_only=True)
    is_verified = serializers.BooleanField(
        read_only=True, help_text="True if Paddock observed that every site responds as expected."
    )
    observation = serializers.SerializerMethodField(
        help_text="Problems that Paddock observed, with one sentence for each site."
    )
    superseded_by = serializers.UUIDField(
        source="superseded_by.uuid",
        read_only=True,
        default=None,
        allow_null=True,
        help_text="The newer plan for the same sites that replaced this plan before anybody confirmed this plan.",
    )

    joined_as = serializers.UUIDField(
        read_only=True,
        allow_null=True,
        help_text=(
            "Paddock carried out all deployments of a host with the same value as one transaction with one reload."
        ),
    )

    class Meta:
        model = Deployment
        fields = [
            "uuid",
            "batch",
            "host",
            "kind",
            "status",
            "is_finished",
            "is_verified",
            "observation",
            "sites",
            "superseded_by",
            "joined_as",
            "requested_by",
            "created_at",
            "confirmed_at",
            "started_at",
            "finished_at",
        ]

    def get_observation(self, deployment: Deployment) -> str:
        """Return the observation; "" for users who may not see all sites of the deployment, because the text names
        them.
        """
        seen = self.context.get("team_ids")
        whole = seen is None or all(item.site.team_id in seen for item in deployment.items.all())
        return deployment.observation if whole else ""

    def get_sites(self, deployment: Deployment) -> list[str]:
        seen = self.context.get("team_ids")  # omit the names of other teams' sites in the same transaction
        return [item.site.name for item in deployment.items.all() if seen is None or item.site.team_id in seen]


class ObservationSerializer(serializers.Serializer[Any]):
    """One response of a site, or the error if the site sent no response."""

    status = serializers.IntegerField(help_text="Status of the response; 0 without a response.")
    error = serializers.CharField(required=False)
    to = serializers.CharField(required=False, help_text="Target of a redirect, without the query.")
    certificate = serializers.CharField(
        required=False, help_text="SHA-256 of the certificate that the web server presented."
    )
    protocol = serializers.CharField(required=False)
    alpn = serializers.CharField(required=False)
    at = serializers.FloatField(required=False, help_text="Time of the request, as Unix time.")


class SiteCheckSerializer(serializers.Serializer[Any]):
    """A request that the host's agent sent to a site before and after the deployment."""

    site = serializers.CharField()
    kind = serializers.CharField(
        help_text=(
            "Kind of the request: health (page), location, address (of the access log), takeover, or other (site)."
        )
    )
    url = serializers.CharField()
    at = serializers.CharField(help_text="The address on the host to which Paddock sent the request.")
    verdict = serializers.CharField(
        help_text="Result: right, changed, same (problem as before), waits (new, not responding yet), or worse."
    )
    words = serializers.CharField()
    before = ObservationSerializer(allow_null=True)
    after = ObservationSerializer()


class DeploymentDetailSerializer(DeploymentSerializer):
    """Deployment with its plan (files, differences, warnings), the checks of its sites, and the error if the deployment
    failed.
    """

    plan = serializers.SerializerMethodField()
    comparison = serializers.DictField(
        read_only=True,
        allow_null=True,
        help_text="Responses of adopted sites before and after the deployment, as pairs.",
    )

    deploy_anyway = serializers.BooleanField(source="anyway", read_only=True)
    checks = SiteCheckSerializer(many=True, read_only=True)
    waits_for = serializers.UUIDField(
        source="waits_for.uuid",
        read_only=True,
        default=None,
        allow_null=True,
        help_text=(
            "The deployment that must succeed before this deployment starts: the other half of a move between hosts."
        ),
    )

    class Meta(DeploymentSerializer.Meta):
        fields = [*DeploymentSerializer.Meta.fields, "plan", "waits_for", "on_success", "comparison", "error"]
        fields += ["deploy_anyway", "checks"]

    def get_plan(self, deployment: Deployment) -> dict[str, Any]:
        return plan_to_json(deployment.plan)


class PlanInput(StrictSerializer):
    """Sites to plan: `sites` names them; `hosts` instead selects all sites on these hosts that changed since their last
    deployment. `confirm` applies the plan immediately without review; otherwise the plan waits.
    """

    sites = serializers.ListField(
        child=serializers.CharField(max_length=63), allow_empty=False, max_length=1000, required=False
    )
    hosts = serializers.ListField(
        child=serializers.CharField(max_length=63), allow_empty=False, max_length=1000, required=False
    )
    sites_tagged = TagsListField(
        allow_empty=False, required=False, help_text="Use instead of `sites`: selects all sites with these tags."
    )
    hosts_tagged = TagsListField(
        allow_empty=False, required=False, help_text="Use instead of `hosts`: selects all hosts with these tags."
    )
    kind = serializers.ChoiceField(choices=[(kind.value, kind.label) for kind in PLANNABLE], required=False)
    confirm = Truth(required=False, default=False)
    accept_drift = Truth(required=False, default=False)
    deploy_anyway = Truth(required=False, default=False)

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        named = [name for name in ("sites", "sites_tagged", "hosts", "hosts_tagged") if name in attrs]
        if len(named) > 1:
            raise serializers.ValidationError({named[-1]: f"Set only one of the fields {named[0]} and {named[-1]}."})
        if not named:
            raise serializers.ValidationError(
                {"sites": "Set `sites`, or set `hosts` to deploy the changed sites on these hosts."}
            )
        if named[0].startswith("hosts") and attrs.get("kind", DeploymentKind.DEPLOY) != DeploymentKind.DEPLOY:
            raise serializers.ValidationError(
                {named[0]: "`hosts` is only for deployments. For the other kinds, set `sites`."}
            )
        return attrs


_ANYWAY = "Keep the new configuration even if its sites respond worse than before. Paddock records this choice."


class ConfirmInput(StrictSerializer):
    accept_drift = Truth(required=False, default=False)
    deploy_anyway = Truth(required=False, default=False, help_text=_ANYWAY)
    despite_windows = Truth(
        required=False,
        default=False,
        help_text="Deploy outside of the hosts' change windows; only administrators may set this.",
    )


class RollbackInput(StrictSerializer):
    revision = serializers.IntegerField(min_value=1, help_text="The number of the revision.")


class DriftSerializer(serializers.ModelSerializer[Drift]):
    site = serializers.CharField(source="site.name", read_only=True, default=None, allow_null=True)
    host = serializers.CharField(source="web_server.host.name", read_only=True)
    web_server = serializers.IntegerField(source="web_server_id", read_only=True)

    class Meta:
        model = Drift
        fields = [
            "id",
            "site",
            "host",
            "web_server",
            "path",
            "expected_sha256",
            "found_sha256",
            "diff",
            "detected_at",
            "resolution",
            "resolved_at",
        ]


class PinSerializer(serializers.ModelSerializer[PinnedFile]):
    site = serializers.CharField(source="site.name", read_only=True)
    web_server = serializers.IntegerField(source="web_server_id", read_only=True)
    adopted_by = serializers.CharField(source="adopted_by.username", read_only=True, default=None, allow_null=True)

    class Meta:
        model = PinnedFile
        fields = ["id", "site", "web_server", "path", "adopted_by", "created_at", "updated_at"]
