"""REST API of server comparisons, which find the best web server for a site."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import UUID_REGEX, Resource, all_or_none
from panel.api.problems import ApiError, parameter_error
from panel.api.serializers import EmptySerializer
from panel.comparisons import results, selectors, services
from panel.comparisons.models import Comparison, Contender
from panel.comparisons.serializers import ComparisonInput, ComparisonSerializer, ReplaySerializer, SwitchInput
from panel.deployments.api.deployments import plans_answer
from panel.deployments.serializers import DeploymentDetailSerializer
from panel.websites.models import Site
from panel.websites.selectors import sites_visible

_REPLAY = ("queries", "other_methods", "concurrency", "duration_s", "rounds")
_TRUTH = {"true": True, "false": False}


class Comparisons(Resource):
    """Server comparisons: a live site is copied to web servers of its host, and the copies are measured under the same
    load.
    """

    model = Comparison
    serializer_class = ComparisonSerializer
    lookup_field = "uuid"
    lookup_value_regex = UUID_REGEX
    writes = Action.BENCHMARK
    filter_fields = {
        "status": ["exact", "in"],
        "site__name": ["exact", "in"],
        "is_replay": ["exact"],
        "created_at": ["gte", "lte"],
    }
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"
    dry_run_actions = {"create", "cancel", "switch"}
    parameters = {"replay": {"site", "queries", "other_methods"}}

    def rows(self) -> QuerySet[Comparison]:
        return selectors.comparisons_visible(self.actor)

    @extend_schema(request=ComparisonInput, responses={202: ComparisonSerializer})
    def create(self, request: Request) -> Response:
        """Start a server comparison. Paddock copies the site to private ports of each web server, checks that all
        copies give the same responses, measures the copies in turns, and removes them.

        The live site is not changed. Needs the scopes sites, deploy and benchmark.
        """
        values = self.body(ComparisonInput)
        site = sites_visible(self.actor).filter(name=values["site"]).first()
        if site is None:
            detail = f"The site {values['site']} does not exist, or you do not have access to it."
            raise ApiError("invalid", detail, [{"pointer": "/site", "detail": detail}])
        others = selectors.candidates(site)
        web_servers = (
            all_or_none(others, "pk", values["web_servers"], "/web_servers")
            if "web_servers" in values
            else list(others)
        )
        services.require_comparison(self.actor, site)
        replay = {name: values[name] for name in _REPLAY}
        chosen = services.load_chosen(actor=self.actor, site=site, choice=values["load"], **replay)
        comparison = services.comparison_create(
            actor=self.actor, site=site, web_servers=web_servers, **chosen._asdict()
        )
        fresh = self.rows().get(pk=comparison.pk)
        return Response(
            ComparisonSerializer(fresh).data, status=202, headers={"Location": f"/api/v1/jobs/{comparison.uuid}/"}
        )

    def destroy(self, request: Request, uuid: UUID | None = None) -> Response:
        """Delete a server comparison with its run, the rounds, and the output of the load tool."""
        services.comparison_delete(actor=self.actor, comparison=self.get_object())
        return Response(status=204)

    @extend_schema(request=EmptySerializer, responses={202: ComparisonSerializer})
    @action(detail=True, methods=["post"])
    def repeat(self, request: Request, uuid: UUID | None = None) -> Response:
        """Repeat a server comparison with the same load and web servers, and the site as it is deployed now."""
        comparison = services.comparison_repeat(actor=self.actor, comparison=self.get_object())
        fresh = self.rows().get(pk=comparison.pk)
        return Response(
            ComparisonSerializer(fresh).data, status=202, headers={"Location": f"/api/v1/jobs/{comparison.uuid}/"}
        )

    @extend_schema(request=EmptySerializer, responses=ComparisonSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, uuid: UUID | None = None) -> Response:
        """Cancel the server comparison. A queued comparison ends immediately; a running comparison ends after its
        copies were removed.
        """
        comparison = services.comparison_cancel(actor=self.actor, comparison=self.get_object())
        return Response(ComparisonSerializer(self.rows().get(pk=comparison.pk)).data)

    @extend_schema(
        request=SwitchInput,
        responses={201: DeploymentDetailSerializer(many=True), 202: DeploymentDetailSerializer(many=True)},
    )
    @action(detail=True, methods=["post"], writes=Action.DEPLOY)
    def switch(self, request: Request, uuid: UUID | None = None) -> Response:
        """Plan to move the site to one of the compared web servers; position 0 is the web server that the site had when
        the comparison started.

        With `confirm`, the plan is deployed immediately (202, Location of the job) and rolled back if verification
        fails.
        """
        values = self.body(SwitchInput)
        contender = self._contender(values["position"])
        if not values["confirm"]:
            return plans_answer(self, [services.switch_plan(actor=self.actor, contender=contender)])
        accept = values["accept_drift"]
        done = services.comparison_switch(actor=self.actor, contender=contender, accept_drift=accept)
        return plans_answer(self, [done], accepted=True)

    def _contender(self, position: int) -> Contender:
        comparison = self.get_object()
        found: Contender | None = (
            comparison.contenders.select_related("web_server__host").filter(position=position).first()
        )
        if found is None:
            detail = f"This server comparison has no web server {position}. The field `servers` lists its web servers."
            raise ApiError("invalid", detail, [{"pointer": "/position", "detail": detail}])
        found.comparison = comparison
        return found

    @extend_schema(
        responses=ReplaySerializer,
        parameters=[
            OpenApiParameter("site", str, required=True),
            OpenApiParameter("queries", bool),
            OpenApiParameter("other_methods", bool),
        ],
    )
    @action(detail=False, methods=["get"], pagination_class=None, filter_backends=[])
    def replay(self, request: Request) -> Response:
        """Return the requests that a replay of a site's access log would send, with their shares."""
        wanted = {name: _truth(request, name) for name in ("queries", "other_methods")}
        found = services.replay_read(actor=self.actor, site=self._site(request), **wanted)
        answer: dict[str, object] = {"requests": found.requests, "left_out": sum(found.left_out.values())}
        paths = [share._asdict() for share in results.shares(found.paths)]
        return Response({**answer, "reasons": found.reasons, "paths": paths})

    def _site(self, request: Request) -> Site:
        site = sites_visible(self.actor).filter(name=request.query_params.get("site", "")).first()
        if site is None:
            raise Http404
        return site


def _truth(request: Request, name: str) -> bool:
    raw = request.query_params.get(name, "false")
    if raw not in _TRUTH:
        raise parameter_error(name, "Send true or false.")
    return _TRUTH[raw]
