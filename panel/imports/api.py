"""API views of imported configurations. Administrators only: an import is the configuration of a whole server."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action, require
from panel.api.base import UUID_REGEX, Resource, base64_decoded, one, require_sudo
from panel.hosts.models import WebServer
from panel.hosts.selectors import web_servers_visible
from panel.imports import selectors, services
from panel.imports.models import Import
from panel.imports.serializers import (
    AdoptedSerializer,
    AdoptSitesInput,
    FoundSiteDetailSerializer,
    ImportDetailSerializer,
    ImportSerializer,
    ReadInput,
    UploadInput,
)


class Imports(Resource):
    """Imported configurations, and the sites found in them."""

    model = Import
    serializer_class = ImportSerializer
    lookup_field = "uuid"
    lookup_value_regex = UUID_REGEX
    reads = Action.ADMINISTER
    writes = Action.ADMINISTER
    filter_fields = {
        "web_server": ["exact", "in"],
        "web_server__host__name": ["exact", "in"],
        "source": ["exact"],
        "created_at": ["gte", "lte"],
    }
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"
    dry_run_actions = {"create", "upload", "adopt", "destroy"}
    parameters = {"sites": {"name"}}

    def rows(self) -> QuerySet[Import]:
        require(self.actor, Action.ADMINISTER)
        return selectors.imports_visible(self.actor)

    def _made(self, record: Import) -> Response:
        location = f"/api/v1/imports/{record.uuid}/"
        return Response(self._detail(record), status=201, headers={"Location": location})

    def _detail(self, record: Import) -> object:
        serializer = ImportDetailSerializer(record, context=self.get_serializer_context())
        if self.action_name == "retrieve":
            self._limit_fields(serializer)
        return serializer.data

    def _web_server(self, pk: int) -> WebServer:
        web_server = one(web_servers_visible(self.actor).select_related("host"), "pk", pk, "/web_server")
        assert isinstance(web_server, WebServer)
        return web_server

    @extend_schema(responses=ImportDetailSerializer)
    def retrieve(self, request: Request, *args: object, **kwargs: object) -> Response:
        return Response(self._detail(self.get_object()))

    @extend_schema(request=ReadInput, responses={201: ImportDetailSerializer})
    def create(self, request: Request) -> Response:
        """Import the live configuration of a web server with its includes. Nothing changes on its host."""
        require(self.actor, Action.ADMINISTER)
        web_server = self._web_server(self.body(ReadInput)["web_server"])
        return self._made(services.import_read_host(actor=self.actor, web_server=web_server))

    @extend_schema(request=UploadInput, responses={201: ImportDetailSerializer})
    @action(detail=False, methods=["post"])
    def upload(self, request: Request) -> Response:
        """Import an uploaded archive of a configuration folder, as if it were the configuration of `web_server`."""
        require(self.actor, Action.ADMINISTER)
        values = self.body(UploadInput)
        data = base64_decoded(values["archive"], "/archive")
        record = services.import_read_upload(
            actor=self.actor, web_server=self._web_server(values["web_server"]), filename=values["filename"], data=data
        )
        return self._made(record)

    @extend_schema(responses=FoundSiteDetailSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def sites(self, request: Request, uuid: object = None) -> Response:
        """List the sites found in an import, with their definitions and the result for each directive. The query
        parameter `name` selects a single site.
        """
        record = self.get_object()
        rows: Any = selectors.rows_of(record, services.report_of(record))
        wanted = request.query_params.get("name")
        if wanted is not None:
            rows = [row for row in rows if row.found.name == wanted]
            if not rows:
                raise Http404
        return Response(FoundSiteDetailSerializer(rows, many=True).data)

    @extend_schema(request=AdoptSitesInput, responses=AdoptedSerializer)
    @action(detail=True, methods=["post"])
    def adopt(self, request: Request, uuid: object = None) -> Response:
        """Adopt sites of an import: create drafts of them, all or none. Nothing changes on the host before a
        deployment.
        """
        record = self.get_object()
        if request.auth is None:
            require_sudo(request, "adopt raw directives")
        values = self.body(AdoptSitesInput)
        adopted = services.import_adopt(
            actor=self.actor,
            record=record,
            names=values["sites"],
            team=values["team"],
            accept_refused=values["accept_refused"],
            add_folders=values["add_folders"],
        )
        return Response({"sites": [site.name for site in adopted.sites], "notes": adopted.notes})

    def destroy(self, request: Request, uuid: object = None) -> Response:
        """Delete an import; sites adopted from it are kept."""
        services.import_delete(actor=self.actor, record=self.get_object())
        return Response(status=204)
