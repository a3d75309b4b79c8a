"""API views of deployments, revisions, drift, and adopted files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import UUID_REGEX, Resource, require_sudo
from panel.api.problems import parameter_error
from panel.api.serializers import EmptySerializer
from panel.deployments import selectors
from panel.deployments.drift import services as drift_services
from panel.deployments.models import Deployment, DeploymentKind, Drift, PinnedFile, Revision
from panel.deployments.planning import services
from panel.deployments.retry import services as retry
from panel.deployments.revisions.rendered import contents
from panel.deployments.serializers import (
    ConfirmInput,
    DeploymentDetailSerializer,
    DeploymentSerializer,
    DriftSerializer,
    PinSerializer,
    PlanInput,
    RevisionFileSerializer,
    RevisionSerializer,
    StepSerializer,
)
from panel.hosts.api import named_hosts
from panel.hosts.selectors import hosts_visible
from panel.websites.api.sites import named_sites
from panel.websites.selectors import sites_visible


def job_location(uuid: object) -> str:
    return f"/api/v1/jobs/{uuid}/"


def plans_answer(view: Resource, deployments: Sequence[Deployment], *, accepted: bool = False) -> Response:
    """Return a response with the deployments of one batch.

    Status 201: the deployments wait for confirmation, and the Location header names the first plan. Status 202
    (`accepted`): the deployments are confirmed, and the Location header names the job of the first one.
    """
    data = DeploymentDetailSerializer(selectors.deployments_planned(deployments), many=True).data
    first = deployments[0].uuid
    location = job_location(first) if accepted else f"/api/v1/deployments/{first}/"
    body = {"batch": str(deployments[0].batch), "deployments": data}
    return Response(body, status=202 if accepted else 201, headers={"Location": location})


class Deployments(Resource):
    """A deployment is a transaction on one host: planned, reviewed, confirmed, then applied or
    rolled back as a whole.
    """

    model = Deployment
    serializer_class = DeploymentSerializer
    lookup_field = "uuid"
    lookup_value_regex = UUID_REGEX
    writes = Action.DEPLOY
    filter_fields = {
        "status": ["exact", "in"],
        "kind": ["exact", "in"],
        "host__name": ["exact", "in"],
        "items__site__name": ["exact", "in"],
        "batch": ["exact"],
        "joined_as": ["exact"],
        "created_at": ["gte", "lte"],
    }
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"
    dry_run_actions = {"create", "confirm", "cancel", "again"}

    def rows(self) -> QuerySet[Deployment]:
        return selectors.with_items(selectors.deployments_visible(self.actor))

    def filter_queryset(self, queryset: Any) -> Any:
        """Apply the filters of the request; a site name matches only among the caller's own sites."""
        rows = super().filter_queryset(queryset)
        for name in ("items__site__name", "items__site__name__in"):
            if wanted := self.request.query_params.get(name):
                rows = selectors.of_own_sites(self.actor, rows, name__in=wanted.split(","))
        return rows

    def get_serializer_context(self) -> dict[str, object]:
        context = dict(super().get_serializer_context())
        if not getattr(self, "swagger_fake_view", False) and not self.actor.is_admin:
            context["team_ids"] = set(self.actor.teams.values_list("pk", flat=True))
        return context

    def whole(self) -> Deployment:
        """Return the requested deployment; raise Http404 for users without access to all of its sites."""
        deployment: Deployment = self.get_object()
        if not selectors.is_whole_visible(self.actor, deployment):
            raise Http404
        return deployment

    @extend_schema(responses=DeploymentDetailSerializer)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        serializer = DeploymentDetailSerializer(self.whole(), context=self.get_serializer_context())
        self._limit_fields(serializer)
        return Response(serializer.data)

    @extend_schema(request=PlanInput, responses={201: DeploymentDetailSerializer(many=True)})
    def create(self, request: Request) -> Response:
        """Plan the deployment, removal or overwriting of sites: one deployment for each host.

        `sites` names the sites. `hosts` instead selects all sites on these hosts that changed since their last
        deployment. `sites_tagged` and `hosts_tagged` select sites or hosts by tag. With `confirm` the plan is applied
        immediately (202, Location of the job). An unknown site or host rejects the whole request.
        """
        values = self.body(PlanInput)
        planned = self._planned(values)
        if not values["confirm"]:
            return plans_answer(self, planned)
        accepted = {name: values[name] for name in ("accept_drift", "deploy_anyway")}
        batch = services.deployment_confirm(actor=self.actor, deployment=planned[0], **accepted)
        return plans_answer(self, batch, accepted=True)

    def _planned(self, values: dict[str, Any]) -> list[Deployment]:
        if "hosts" in values or "hosts_tagged" in values:
            return services.hosts_plan(actor=self.actor, hosts=named_hosts(hosts_visible(self.actor), values))
        sites = named_sites(sites_visible(self.actor), values)
        kind = DeploymentKind(values.get("kind", DeploymentKind.DEPLOY))
        return services.deployment_plan(actor=self.actor, sites=sites, kind=kind)

    @extend_schema(request=ConfirmInput, responses={202: DeploymentDetailSerializer(many=True)})
    @action(detail=True, methods=["post"])
    def confirm(self, request: Request, uuid: object = None) -> Response:
        """Confirm the plan: apply it and the other plans of its batch. An outdated plan is rejected (409)."""
        values = self.body(ConfirmInput)
        batch = services.deployment_confirm(actor=self.actor, deployment=self.whole(), **values)
        return plans_answer(self, batch, accepted=True)

    @extend_schema(request=EmptySerializer, responses=DeploymentDetailSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, uuid: object = None) -> Response:
        """Discard a plan, or cancel a queued deployment that no worker has started."""
        row = services.deployment_cancel(actor=self.actor, deployment=self.whole())
        return Response(DeploymentDetailSerializer(row, context=self.get_serializer_context()).data)

    @extend_schema(request=EmptySerializer, responses={201: DeploymentDetailSerializer(many=True), 204: None})
    @action(detail=True, methods=["post"])
    def again(self, request: Request, uuid: object = None) -> Response:
        """Make a new plan for a deployment that failed, was discarded, or was replaced by a newer plan. If the
        deployment is a plan that still waits for confirmation, the new plan replaces it. 204: the change took effect
        without a plan.
        """
        planned = retry.deployment_replan(actor=self.actor, deployment=self.whole())
        return plans_answer(self, planned) if planned else Response(status=204)

    @extend_schema(responses=StepSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def steps(self, request: Request, uuid: object = None) -> Response:
        """List the steps of the deployment on its host, with the output of each command."""
        return Response(StepSerializer(self.whole().steps.all(), many=True).data)


class Revisions(Resource):
    """Immutable revisions of sites: each is one saved configuration with its rendered files."""

    model = Revision
    serializer_class = RevisionSerializer
    filter_fields = {"site__name": ["exact", "in"], "number": ["exact", "gte", "lte"], "digest": ["exact"]}
    ordering_fields = ("id", "created_at")
    ordering = "-id"
    parameters = {"files": {"path"}}

    def rows(self) -> QuerySet[Revision]:
        return selectors.revisions_visible(self.actor)

    @extend_schema(responses=RevisionFileSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def files(self, request: Request, pk: str = "") -> Response:
        """List the revision's files with their content; for private keys and password files only the digest. `path`
        selects one file.
        """
        records = self.get_object().files
        path = request.query_params.get("path")
        if path is not None:
            records = [row for row in records if row["path"] == path]
            if not records:
                raise parameter_error("path", "This revision has no file with this path.")
        texts = contents(row["sha256"] for row in records if not row["secret"])
        return Response([row | {"content": texts.get(row["sha256"])} for row in records])


class Drifts(Resource):
    """Managed files that were edited on a host."""

    model = Drift
    serializer_class = DriftSerializer
    writes = Action.DEPLOY
    filter_fields = {
        "site__name": ["exact", "in"],
        "web_server__host__name": ["exact", "in"],
        "resolution": ["exact", "in"],
        "path": ["exact", "icontains"],
    }
    ordering_fields = ("id", "detected_at")
    ordering = "-id"
    dry_run_actions = {"adopt", "overwrite"}

    def rows(self) -> QuerySet[Drift]:
        return selectors.drifts_visible(self.actor, only_open=False)

    @extend_schema(request=EmptySerializer, responses=PinSerializer)
    @action(detail=True, methods=["post"])
    def adopt(self, request: Request, pk: str = "") -> Response:
        """Adopt the edited file: all later deployments keep the text found on the host. Administrators only."""
        drift = self.get_object()
        if request.auth is None:
            require_sudo(request, "adopt raw directives")
        pin = drift_services.drift_adopt(actor=self.actor, drift=drift)
        return Response(PinSerializer(pin).data)

    @extend_schema(request=EmptySerializer, responses={201: DeploymentDetailSerializer(many=True)})
    @action(detail=True, methods=["post"])
    def overwrite(self, request: Request, pk: str = "") -> Response:
        """Plan to overwrite all edited files of the site with the versions that were deployed last. Confirm the plan
        with `accept_drift`.
        """
        drift = self.get_object()
        if drift.site is None:
            raise Http404
        return plans_answer(self, [drift_services.drift_overwrite(actor=self.actor, site=drift.site)])


class Pins(Resource):
    """Adopted files: deployments keep the host's text. Deleting an entry lets Paddock write the file again."""

    model = PinnedFile
    serializer_class = PinSerializer
    writes = Action.ADMINISTER
    filter_fields = {"site__name": ["exact", "in"], "path": ["exact"]}
    ordering_fields = ("id", "created_at")
    dry_run_actions = {"destroy"}

    def rows(self) -> QuerySet[PinnedFile]:
        return selectors.pins_visible(self.actor)

    def destroy(self, request: Request, pk: str = "") -> Response:
        drift_services.pin_release(actor=self.actor, pin=self.get_object())
        return Response(status=204)
