"""REST API of PHP-FPM pools."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import Resource, one
from panel.api.problems import parameter_error
from panel.fpm import services
from panel.fpm.models import FpmPool
from panel.fpm.selectors import pools_visible, site_host
from panel.fpm.serializers import FpmPoolChange, FpmPoolInput, FpmPoolSerializer, PoolApplyInput
from panel.hosts.api import queued
from panel.hosts.serializers import HostJobSerializer
from panel.websites.selectors import sites_visible

FORGET = OpenApiParameter("forget", bool, description="Delete the pool only in the panel; the host keeps the pool.")
HOST = OpenApiParameter("host", str, description="Name of the host on which a move left the pool.")
JOB = {202: HostJobSerializer}


@extend_schema_view(retrieve=extend_schema(parameters=[HOST]))
class FpmPools(Resource):
    """PHP-FPM pools that Paddock creates on hosts, one for each site. Only administrators can change them."""

    model = FpmPool
    serializer_class = FpmPoolSerializer
    lookup_field = "site__name"
    lookup_url_kwarg = "site"
    lookup_value_regex = "[^/]+"
    writes = Action.ADMINISTER
    versioned = True
    filter_fields = {"site__name": ["exact", "in"], "host__name": ["exact", "in"]}
    ordering_fields = ("id", "name", "created_at")
    ordering = "name"
    parameters = {"retrieve": {"host"}, "destroy": {"forget", "host"}}
    dry_run_actions = {"create", "partial_update", "destroy"}

    def rows(self) -> QuerySet[FpmPool]:
        """Return all pools for the list; otherwise only those on one host, by default on the hosts of their sites."""
        rows = pools_visible(self.actor)
        if not self.detail:
            return rows
        host = self.request.query_params.get("host")
        return rows.filter(host__name=host) if host else rows.filter(host=site_host())

    @extend_schema(request=FpmPoolInput, responses=JOB)
    def create(self, request: Request) -> Response:
        """Create the pool of a site, and start the job that writes the pool to the host. php-fpm tests the
        configuration first. If php-fpm does not serve the pool afterwards, the job restores the former state of the
        host.
        """
        values = self.body(FpmPoolInput)
        site = one(sites_visible(self.actor), "name", values.pop("site"), "/site")
        return queued(services.fpm_pool_create(actor=self.actor, site=site, **values))

    @extend_schema(request=FpmPoolChange, responses=JOB)
    def partial_update(self, request: Request, site: str = "") -> Response:
        """Change a pool, and start the job that writes it to the host."""
        row = self.get_object()
        expected, values = self.expected_version(row), self.body(FpmPoolChange, partial=True)
        return queued(services.fpm_pool_update(actor=self.actor, pool=row, expected_version=expected, **values))

    @extend_schema(parameters=[FORGET, HOST], responses={**JOB, 204: None})
    def destroy(self, request: Request, site: str = "") -> Response:
        """Start the job that removes the pool from its host, by default from the host of the site. Rejected while a
        live site uses the pool.
        """
        row, forget = self.get_object(), request.query_params.get("forget", "false")
        if forget not in ("true", "false"):
            raise parameter_error("forget", "Send true or false.")
        self.expected_version(row)
        if forget == "true":
            services.fpm_pool_forget(actor=self.actor, pool=row)
            return Response(status=204)
        return queued(services.fpm_pool_remove(actor=self.actor, pool=row))

    @extend_schema(request=PoolApplyInput, responses=JOB)
    @action(detail=True, methods=["post"])
    def apply(self, request: Request, site: str = "") -> Response:
        """Start the job that writes the pool to its host again."""
        row, values = self.get_object(), self.body(PoolApplyInput)
        return queued(services.fpm_pool_apply(actor=self.actor, pool=row, **values))
