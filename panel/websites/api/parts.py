"""REST API of server blocks, locations, upstreams, PHP pools, stream servers and raw directives."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import Resource, require_sudo
from panel.api.problems import ApiError
from panel.websites import services
from panel.websites.models import Location, PhpPool, RawSnippet, ServerBlock, StreamServer, Upstream
from panel.websites.part_selectors import (
    blocks_visible,
    locations_visible,
    php_pools_visible,
    snippets_visible,
    stream_servers_visible,
    upstreams_visible,
)
from panel.websites.serializers.sites import (
    BlockSerializer,
    LocationOrder,
    LocationSerializer,
    PhpPoolSerializer,
    SnippetSerializer,
    UpstreamSerializer,
)
from panel.websites.serializers.streams import StreamServerSerializer


def _keep_site(instance: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an update without `site`. Raises ApiError if `site` is not the site of `instance`."""
    if values.pop("site", instance.site) != instance.site:
        detail = "Objects cannot move to another site. Create a copy in the other site, then delete this object."
        raise ApiError("invalid", detail, [{"pointer": "/site", "detail": detail}])
    return values


class Blocks(Resource):
    """Server blocks of sites. The lists `listens` and `names` are replaced as a whole; locations are at /locations/."""

    model = ServerBlock
    serializer_class = BlockSerializer
    versioned = True
    filter_fields = {"site__name": ["exact", "in"], "names__name": ["exact"], "listens__port": ["exact"]}
    ordering_fields = ("id",)
    dry_run_actions = {"create", "update", "partial_update", "destroy", "locations", "reorder"}

    def rows(self) -> QuerySet[ServerBlock]:
        return blocks_visible(self.actor)

    def _values(self, partial: bool = False) -> dict[str, Any]:
        return self.body(BlockSerializer, partial=partial)

    def create(self, request: Request) -> Response:
        block = services.block_create(actor=self.actor, **self._values())
        return self.answer(block, status=201, location=f"/api/v1/blocks/{block.pk}/")

    def update(self, request: Request, pk: str = "", partial: bool = False) -> Response:
        block = self.get_object()
        expected = self.expected_version(block)
        values = _keep_site(block, self._values(partial))
        services.block_update(actor=self.actor, block=block, expected_version=expected, **values)
        return self.answer(self.get_object())

    def partial_update(self, request: Request, pk: str = "") -> Response:
        return self.update(request, pk, partial=True)

    def destroy(self, request: Request, pk: str = "") -> Response:
        block = self.get_object()
        services.block_delete(actor=self.actor, block=block, expected_version=self.expected_version(block))
        return Response(status=204)

    @extend_schema(request=LocationSerializer, responses={200: LocationSerializer(many=True), 201: LocationSerializer})
    @action(detail=True, methods=["get", "post"], serializer_class=LocationSerializer, pagination_class=None)
    def locations(self, request: Request, pk: str = "") -> Response:
        """List the locations of the server block, in the order in which regular expressions are tried; POST adds one at
        the end.
        """
        block = self.get_object()
        context = {**self.get_serializer_context(), "site": block.site}
        if request.method == "GET":
            rows = block.locations.select_related("upstream", "php_pool")
            return Response(LocationSerializer(rows, many=True, context=context).data)
        serializer = LocationSerializer(data=request.data, context=context)
        serializer.is_valid(raise_exception=True)
        made = services.location_create(actor=self.actor, block=block, **serializer.validated_data)
        data = LocationSerializer(made, context=context).data
        return Response(data, status=201, headers={"Location": f"/api/v1/locations/{made.pk}/"})

    @extend_schema(request=LocationOrder, responses=LocationSerializer(many=True))
    @action(detail=True, methods=["put"], url_path="locations/order", pagination_class=None)
    def reorder(self, request: Request, pk: str = "") -> Response:
        """Reorder the locations of the server block: `order` must contain each of them exactly once."""
        block = self.get_object()
        services.locations_reorder(actor=self.actor, block=block, order=self.body(LocationOrder)["order"])
        rows = block.locations.select_related("upstream", "php_pool")
        return Response(LocationSerializer(rows, many=True, context=self.get_serializer_context()).data)


class Locations(Resource):
    """Locations of all server blocks; create them at /blocks/{id}/locations/."""

    model = Location
    serializer_class = LocationSerializer
    versioned = True
    filter_fields = {
        "block": ["exact", "in"],
        "block__site__name": ["exact", "in"],
        "handler": ["exact", "in"],
        "match": ["exact"],
        "pattern": ["exact", "icontains"],
    }
    ordering_fields = ("id",)
    dry_run_actions = {"update", "partial_update", "destroy"}

    def rows(self) -> QuerySet[Location]:
        return locations_visible(self.actor)

    def update(self, request: Request, pk: str = "", partial: bool = False) -> Response:
        location = self.get_object()
        expected = self.expected_version(location)
        context = {**self.get_serializer_context(), "site": location.block.site}
        serializer = LocationSerializer(data=request.data, context=context, partial=partial)
        serializer.is_valid(raise_exception=True)
        services.location_update(
            actor=self.actor, location=location, expected_version=expected, **serializer.validated_data
        )
        return self.answer(self.get_object())

    def partial_update(self, request: Request, pk: str = "") -> Response:
        return self.update(request, pk, partial=True)

    def destroy(self, request: Request, pk: str = "") -> Response:
        location = self.get_object()
        services.location_delete(actor=self.actor, location=location, expected_version=self.expected_version(location))
        return Response(status=204)


class Upstreams(Resource):
    """Upstreams: groups of application servers for a site's locations."""

    model = Upstream
    serializer_class = UpstreamSerializer
    versioned = True
    filter_fields = {"site__name": ["exact", "in"], "name": ["exact", "in", "icontains"]}
    ordering_fields = ("id",)
    dry_run_actions = {"create", "update", "partial_update", "destroy"}

    def rows(self) -> QuerySet[Upstream]:
        return upstreams_visible(self.actor)

    def create(self, request: Request) -> Response:
        made = services.upstream_create(actor=self.actor, **self.body(UpstreamSerializer))
        return self.answer(made, status=201, location=f"/api/v1/upstreams/{made.pk}/")

    def update(self, request: Request, pk: str = "", partial: bool = False) -> Response:
        row = self.get_object()
        expected = self.expected_version(row)
        values = _keep_site(row, self.body(UpstreamSerializer, partial=partial))
        services.upstream_update(actor=self.actor, upstream=row, expected_version=expected, **values)
        return self.answer(self.get_object())

    def partial_update(self, request: Request, pk: str = "") -> Response:
        return self.update(request, pk, partial=True)

    def destroy(self, request: Request, pk: str = "") -> Response:
        row = self.get_object()
        services.upstream_delete(actor=self.actor, upstream=row, expected_version=self.expected_version(row))
        return Response(status=204)


class PhpPools(Resource):
    """PHP pools: PHP processes for a site's locations."""

    model = PhpPool
    serializer_class = PhpPoolSerializer
    versioned = True
    filter_fields = {"site__name": ["exact", "in"], "name": ["exact", "in", "icontains"]}
    ordering_fields = ("id",)
    dry_run_actions = {"create", "update", "partial_update", "destroy"}

    def rows(self) -> QuerySet[PhpPool]:
        return php_pools_visible(self.actor)

    def create(self, request: Request) -> Response:
        made = services.php_pool_create(actor=self.actor, **self.body(PhpPoolSerializer))
        return self.answer(made, status=201, location=f"/api/v1/php-pools/{made.pk}/")

    def update(self, request: Request, pk: str = "", partial: bool = False) -> Response:
        row = self.get_object()
        expected = self.expected_version(row)
        values = _keep_site(row, self.body(PhpPoolSerializer, partial=partial))
        services.php_pool_update(actor=self.actor, pool=row, expected_version=expected, **values)
        return self.answer(self.get_object())

    def partial_update(self, request: Request, pk: str = "") -> Response:
        return self.update(request, pk, partial=True)

    def destroy(self, request: Request, pk: str = "") -> Response:
        row = self.get_object()
        services.php_pool_delete(actor=self.actor, pool=row, expected_version=self.expected_version(row))
        return Response(status=204)


class StreamServers(Resource):
    """Stream servers: TCP and UDP ports whose connections go on to an upstream of the site. nginx and gallop only."""

    model = StreamServer
    serializer_class = StreamServerSerializer
    versioned = True
    filter_fields = {
        "site__name": ["exact", "in"],
        "name": ["exact", "in", "icontains"],
        "protocol": ["exact"],
        "port": ["exact", "in"],
    }
    ordering_fields = ("id", "port")
    dry_run_actions = {"create", "update", "partial_update", "destroy"}

    def rows(self) -> QuerySet[StreamServer]:
        return stream_servers_visible(self.actor)

    def create(self, request: Request) -> Response:
        made = services.stream_server_create(actor=self.actor, **self.body(StreamServerSerializer))
        return self.answer(made, status=201, location=f"/api/v1/stream-servers/{made.pk}/")

    def update(self, request: Request, pk: str = "", partial: bool = False) -> Response:
        row = self.get_object()
        expected = self.expected_version(row)
        values = _keep_site(row, self.body(StreamServerSerializer, partial=partial, instance=row))
        services.stream_server_update(actor=self.actor, server=row, expected_version=expected, **values)
        return self.answer(self.get_object())

    def partial_update(self, request: Request, pk: str = "") -> Response:
        return self.update(request, pk, partial=True)

    def destroy(self, request: Request, pk: str = "") -> Response:
        row = self.get_object()
        services.stream_server_delete(actor=self.actor, server=row, expected_version=self.expected_version(row))
        return Response(status=204)


class Snippets(Resource):
    """Raw directives of sites. Only administrators can change them; users with a session must confirm their password
    first.
    """

    model = RawSnippet
    serializer_class = SnippetSerializer
    writes = Action.ADMINISTER
    versioned = True
    filter_fields = {"site__name": ["exact", "in"], "engine": ["exact", "in"]}
    ordering_fields = ("id",)
    dry_run_actions = {"create", "partial_update", "destroy"}

    def rows(self) -> QuerySet[RawSnippet]:
        return snippets_visible(self.actor)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method not in {"GET", "HEAD", "OPTIONS"} and request.auth is None:
            require_sudo(request, "write raw directives")

    def create(self, request: Request) -> Response:
        made = services.snippet_create(actor=self.actor, **self.body(SnippetSerializer))
        return self.answer(made, status=201, location=f"/api/v1/snippets/{made.pk}/")

    def partial_update(self, request: Request, pk: str = "") -> Response:
        """Change the text of raw directives. No other field can change."""
        row = self.get_object()
        expected = self.expected_version(row)
        values = self.body(SnippetSerializer, partial=True)
        if set(values) != {"text"}:
            raise ApiError(
                "invalid",
                "Only the text of raw directives can change. To move raw directives, delete them and create new ones.",
            )
        services.snippet_update(actor=self.actor, snippet=row, text=values["text"], expected_version=expected)
        return self.answer(self.get_object())

    def destroy(self, request: Request, pk: str = "") -> Response:
        row = self.get_object()
        services.snippet_delete(actor=self.actor, snippet=row, expected_version=self.expected_version(row))
        return Response(status=204)
