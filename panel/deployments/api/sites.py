"""API actions on sites that need a deployment: disable, delete, move, roll back, and previews of the draft."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import require_sudo
from panel.api.problems import ApiError, parameter_error
from panel.api.serializers import EmptySerializer
from panel.deployments import selectors
from panel.deployments.api.deployments import plans_answer
from panel.deployments.caches import services as caches
from panel.deployments.models import Deployment, Revision
from panel.deployments.planning import services
from panel.deployments.revisions.rendered import site_files
from panel.deployments.rollback import services as rollback
from panel.deployments.serializers import DeploymentDetailSerializer, RevisionSerializer, RollbackInput
from panel.hosts.models import WebServer
from panel.hosts.selectors import web_servers_visible
from panel.rendering import capabilities
from panel.rendering.errors import NotExpressible
from panel.websites import freeze, web_server_specs
from panel.websites.api.sites import Sites, web_server_named
from panel.websites.explaining import explained
from panel.websites.forms.explain import ExplainForm
from panel.websites.models import Site
from panel.websites.serializers.sites import BulkInput, MoveInput, SiteSerializer

_PLANS = {201: DeploymentDetailSerializer(many=True)}
_BULK = """Act on many sites at once: all of them or none.

`enable` and `disable` set the state; a deployment applies it on the hosts. `move` plans to serve the sites on the web
server `web_server` (201), like `{name}/move/`; drafts change immediately. `take-off` plans to remove the sites from
their hosts and then delete them, like `{name}/take-off/` (201); sites that are not deployed are deleted immediately.
204 means that nothing was left to plan. `tag` adds and removes tags (`add`, `remove`); the hosts stay unchanged."""


class PreviewFile(serializers.Serializer[Any]):
    path = serializers.CharField()
    mode = serializers.IntegerField()
    link = serializers.CharField(allow_blank=True)
    secret = serializers.BooleanField()
    content = serializers.CharField(
        allow_null=True, help_text="Text of the file; null if the file is a secret or a symbolic link."
    )


class EmptiedSerializer(serializers.Serializer[Any]):
    files = serializers.IntegerField(help_text="Number of cached responses that were deleted.")
    bytes = serializers.IntegerField()


class DifferenceSerializer(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="A JSON pointer into the site's saved configuration.")
    engine = serializers.CharField()
    severity = serializers.CharField()
    what = serializers.CharField()
    nearest = serializers.CharField(allow_blank=True)


class ExplanationStep(serializers.Serializer[Any]):
    name = serializers.CharField()
    text = serializers.CharField()
    reasons = serializers.ListField(child=serializers.CharField())


class ExplanationOutcome(serializers.Serializer[Any]):
    kind = serializers.CharField()
    status = serializers.IntegerField(allow_null=True)
    text = serializers.CharField(allow_blank=True)
    files = serializers.ListField(child=serializers.CharField())
    otherwise = serializers.CharField(allow_blank=True)
    notes = serializers.ListField(child=serializers.CharField())


class ExplanationSerializer(serializers.Serializer[Any]):
    """Steps by which a web server chooses the response to a URL. `block` and `location` are JSON pointers into the
    site's definition. Sites of other teams are not named.
    """

    site = serializers.CharField(allow_null=True)
    block = serializers.CharField(allow_blank=True)
    location = serializers.CharField(allow_blank=True)
    steps = ExplanationStep(many=True)
    outcome = ExplanationOutcome(allow_null=True)


@extend_schema_view(
    bulk=extend_schema(
        request=BulkInput, responses={200: SiteSerializer(many=True), 204: None, **_PLANS}, description=_BULK
    )
)
class DeployableSites(Sites):
    """Sites: their domains, content and settings. Changes of a site reach its host only through a deployment."""

    dry_run_actions = Sites.dry_run_actions | {"rollback", "set_back", "disable", "take_off", "move"}
    parameters = {
        **Sites.parameters,
        "preview": {"web_server"},
        "differences": {"web_server"},
        "explain": {"url", "web_server"},
    }

    def _planned(self, planned: Deployment | None) -> Response:
        """Return a response with the plan to confirm; 204 if an undeployed site was changed without a plan."""
        return Response(status=204) if planned is None else plans_answer(self, [planned])

    @extend_schema(responses=RevisionSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def revisions(self, request: Request, name: str = "") -> Response:
        """List the site's latest 100 revisions. The endpoint /revisions/ lists all revisions in pages."""
        rows = self.get_object().revisions.select_related("site", "web_server__host", "created_by").defer("spec")
        return Response(RevisionSerializer(rows[:100], many=True).data)

    @extend_schema(request=RollbackInput, responses=_PLANS)
    @action(detail=True, methods=["post"], writes=Action.DEPLOY)
    def rollback(self, request: Request, name: str = "") -> Response:
        """Plan to deploy an earlier revision of the site again, exactly as it was. The draft stays unchanged."""
        site = self.get_object()
        return self._planned(services.site_rollback(actor=self.actor, site=site, revision=self._revision(site)))

    def _revision(self, site: Site) -> Revision:
        number = self.body(RollbackInput)["revision"]
        revision = selectors.revision_numbered(site, number)
        if revision is None:
            detail = f"{site.name} has no revision {number}."
            raise ApiError("invalid", detail, [{"pointer": "/revision", "detail": detail}])
        return revision

    @extend_schema(request=RollbackInput, responses=SiteSerializer)
    @action(detail=True, methods=["post"], url_path="set-back")
    def set_back(self, request: Request, name: str = "") -> Response:
        """Change the draft to the content of an earlier revision; the current draft is kept as a revision.

        Hosts change only after a plan is confirmed. Team, web server, health path, notes and tags stay the same.
        """
        site = self.get_object()
        expected, revision = self.expected_version(site), self._revision(site)
        if request.auth is None and rollback.restore_changes_snippets(site, revision):
            require_sudo(request, "write raw directives")
        rollback.draft_restore(actor=self.actor, site=site, revision=revision, expected_version=expected)
        return self.answer(self.get_object())

    @extend_schema(request=EmptySerializer, responses=_PLANS | {204: None})
    @action(detail=True, methods=["post"], writes=Action.DEPLOY)
    def disable(self, request: Request, name: str = "") -> Response:
        """Plan to disable the site; a site that is not deployed is disabled immediately (204)."""
        return self._planned(services.site_disable(actor=self.actor, site=self.get_object()))

    @extend_schema(request=EmptySerializer, responses=EmptiedSerializer)
    @action(detail=True, methods=["post"], url_path="empty-cache", writes=Action.DEPLOY)
    def empty_cache(self, request: Request, name: str = "") -> Response:
        """Delete the cached responses of the site. Apache has one cache for all its sites, so the cached responses of
        its other sites are deleted too.
        """
        found = caches.site_cache_empty(actor=self.actor, site=self.get_object())
        return Response(EmptiedSerializer(found).data)

    @extend_schema(request=EmptySerializer, responses=_PLANS | {204: None})
    @action(detail=True, methods=["post"], url_path="take-off", writes=Action.DEPLOY)
    def take_off(self, request: Request, name: str = "") -> Response:
        """Plan to remove the site from its host and delete it; a site that is not deployed is deleted immediately."""
        return self._planned(services.site_delete(actor=self.actor, site=self.get_object()))

    def planned_for(self, sites: list[Site], web_server: WebServer | None) -> Response:
        if web_server is None:
            planned = services.sites_delete(actor=self.actor, sites=sites)
        else:
            planned = services.sites_move(actor=self.actor, sites=sites, web_server=web_server)
        return plans_answer(self, planned) if planned else Response(status=204)

    @extend_schema(request=MoveInput, responses=_PLANS)
    @action(detail=True, methods=["post"], writes=Action.DEPLOY)
    def move(self, request: Request, name: str = "") -> Response:
        """Plan to move the site to another web server, on this host or another. The plan for another host creates the
        site's PHP-FPM pool there; only administrators may move a site with a pool.
        """
        site, values = self.get_object(), self.body(MoveInput)
        web_server = web_server_named(self.actor, values.pop("web_server"))
        assert web_server is not None
        return plans_answer(self, services.site_move(actor=self.actor, site=site, web_server=web_server, **values))

    def _web_server_wanted(self, site: Site) -> WebServer:
        """Return the web server whose ID is in `?web_server=`; without this parameter, the web server of the site.
        Raises ApiError if there is no such web server.
        """
        raw = self.request.query_params.get("web_server")
        if raw is not None and not (raw.isascii() and raw.isdecimal() and len(raw) < 18):
            raise parameter_error("web_server", "Set the ID of the web server; /api/v1/web-servers/ lists them.")
        web_server = web_servers_visible(self.actor).filter(pk=raw).first() if raw else site.web_server
        if raw and web_server is None:
            raise parameter_error("web_server", f"No web server has the ID {raw}; /api/v1/web-servers/ lists them.")
        if web_server is None:
            raise ApiError(
                "conflict",
                "This site has no web server. Choose a web server for the site first, or set ?web_server=ID.",
            )
        return web_server

    @extend_schema(responses=DifferenceSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def differences(self, request: Request, name: str = "") -> Response:
        """List settings of the site that its web server (or the one with ID `web_server`) cannot express, and the
        configuration rendered instead."""
        site = self.get_object()
        web_server = self._web_server_wanted(site)
        spec = freeze.site_spec(site, web_server)
        found = capabilities.differences(spec, web_server_specs.web_server_spec_for(site, web_server, spec))
        return Response(DifferenceSerializer(found, many=True).data)

    @extend_schema(responses=ExplanationSerializer, parameters=[OpenApiParameter("url", str, required=True)])
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def explain(self, request: Request, name: str = "") -> Response:
        """Explain step by step which server block and location handle `url`, by the drafts of all sites on the web
        server.
        """
        site = self.get_object()
        web_server = self._web_server_wanted(site)
        form = ExplainForm({"url": request.query_params.get("url", "")})
        if not form.is_valid() or form.question is None:
            raise parameter_error(
                "url",
                " ".join(
                    map(
                        str,
                        form.errors.get(
                            "url", ["Enter the URL of a request in ?url=, for example https://www.example.com/shop."]
                        ),
                    )
                ),
            )
        try:
            found = explained(site, web_server, form.question)
        except NotExpressible as error:
            raise parameter_error("url", error.message) from error
        if found.site and found.site != site.name and not self.rows().filter(name=found.site).exists():
            return Response({"site": None, "block": "", "location": "", "steps": [], "outcome": None})
        return Response(ExplanationSerializer(found).data)

    @extend_schema(responses=PreviewFile(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def preview(self, request: Request, name: str = "") -> Response:
        """Render the draft of the site for its web server, or for the one with ID `web_server`. Nothing is stored."""
        site = self.get_object()
        web_server = self._web_server_wanted(site)
        files = site_files(site, web_server, freeze.site_spec(site, web_server))
        return Response(
            [
                {
                    "path": file.path,
                    "mode": file.mode,
                    "link": file.link_target,
                    "secret": file.is_secret,
                    "content": None if file.is_secret or file.link_target else file.text,
                }
                for file in files
            ]
        )
