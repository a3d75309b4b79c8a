"""REST endpoints of rollouts."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import UUID_REGEX, Resource, one
from panel.api.serializers import EmptySerializer
from panel.deployments.selectors import deployments_visible
from panel.rollouts import services
from panel.rollouts.models import Rollout
from panel.rollouts.selectors import rollouts_visible, with_waves
from panel.rollouts.serializers import RolloutInput, RolloutSerializer


class Rollouts(Resource):
    """Rollouts: deployments of a plan to several hosts in waves.

    If a wave fails a check, Paddock rolls back all waves.
    """

    model = Rollout
    serializer_class = RolloutSerializer
    lookup_field = "uuid"
    lookup_value_regex = UUID_REGEX
    writes = Action.DEPLOY
    filter_fields = {"status": ["exact", "in"], "batch": ["exact"], "created_at": ["gte", "lte"]}
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"
    dry_run_actions = {"create", "pause", "resume", "approve", "end", "undo"}

    def rows(self) -> QuerySet[Rollout]:
        return with_waves(rollouts_visible(self.actor))

    def _accepted(self, rollout: Rollout) -> Response:
        headers = {"Location": f"/api/v1/rollouts/{rollout.uuid}/"}
        return Response(RolloutSerializer(self.rows().get(pk=rollout.pk)).data, status=202, headers=headers)

    @extend_schema(request=RolloutInput, responses={202: RolloutSerializer})
    def create(self, request: Request) -> Response:
        """Confirm a plan for several hosts and deploy its first wave, at once or at `start_at`.

        The waves are `first` hosts, `percent` of all hosts, then the rest. After each wave Paddock observes its sites
        for `soak_s` seconds: their responses to health checks, 5xx responses in their access logs (at most
        `most_errors` percentage points more than before and than on unchanged hosts), the 99th percentile of the
        response times (at most `most_slower` percent more). Then Paddock requires a 2xx response of the URL `hook_url`,
        and a person's approval, if these are configured. If one of these checks fails, Paddock rolls back all waves.
        """
        values = self.body(RolloutInput)
        plan = one(deployments_visible(self.actor), "uuid", values.pop("deployment"), "/deployment")
        accepted = {name: values.pop(name) for name in ("accept_drift", "deploy_anyway")}
        rules = services.Rules(**values)
        return self._accepted(services.rollout_start(actor=self.actor, deployment=plan, rules=rules, **accepted))

    @extend_schema(request=EmptySerializer, responses={202: RolloutSerializer})
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, uuid: object = None) -> Response:
        """Start no further wave until the rollout is resumed. Running deployments continue to their end."""
        return self._accepted(services.rollout_pause(actor=self.actor, rollout=self.get_object()))

    @extend_schema(request=EmptySerializer, responses={202: RolloutSerializer})
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, uuid: object = None) -> Response:
        """Resume a paused rollout."""
        return self._accepted(services.rollout_resume(actor=self.actor, rollout=self.get_object()))

    @extend_schema(request=EmptySerializer, responses={202: RolloutSerializer})
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, uuid: object = None) -> Response:
        """Approve the wave that waits for approval, so that the next wave starts."""
        return self._accepted(services.wave_approve(actor=self.actor, rollout=self.get_object()))

    @extend_schema(request=EmptySerializer, responses={202: RolloutSerializer})
    @action(detail=True, methods=["post"])
    def end(self, request: Request, uuid: object = None) -> Response:
        """End the rollout and keep its deployed waves. Waiting hosts are not changed."""
        return self._accepted(services.rollout_end(actor=self.actor, rollout=self.get_object()))

    @extend_schema(request=EmptySerializer, responses={202: RolloutSerializer})
    @action(detail=True, methods=["post"])
    def undo(self, request: Request, uuid: object = None) -> Response:
        """Restore the previous configuration on every host, also after the rollout has ended."""
        return self._accepted(services.rollout_undo(actor=self.actor, rollout=self.get_object()))
