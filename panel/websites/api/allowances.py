"""REST API of allowances: permissions of teams to use names, addresses and services that belong to others."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import Resource
from panel.websites import services
from panel.websites.models import Allowance
from panel.websites.selectors import allowances_visible
from panel.websites.serializers.allowances import AllowanceInput, AllowanceSerializer


class Allowances(Resource):
    """Allowances that administrators give to teams: names and addresses that overlap another team's, and services of a
    host (sockets, loopback ports) that upstreams and PHP pools may use.
    """

    model = Allowance
    serializer_class = AllowanceSerializer
    writes = Action.ADMINISTER
    versioned = True
    filter_fields = {
        "kind": ["exact", "in"],
        "value": ["exact", "icontains"],
        "team__slug": ["exact", "in", "isnull"],
        "host__name": ["exact", "in", "isnull"],
    }
    ordering_fields = ("id", "kind", "value", "created_at")
    ordering = "id"
    dry_run_actions = {"create", "destroy"}

    def rows(self) -> QuerySet[Allowance]:
        return allowances_visible(self.actor)

    @extend_schema(request=AllowanceInput, responses={201: AllowanceSerializer})
    def create(self, request: Request) -> Response:
        """Add an allowance and record who added it. Administrators only."""
        made = services.allowance_create(actor=self.actor, **self.body(AllowanceInput))
        return self.answer(made, status=201, location=f"/api/v1/allowances/{made.pk}/")

    def destroy(self, request: Request, pk: str = "") -> Response:
        """Withdraw an allowance. Deployed sites stay unchanged; operators can no longer save or plan sites that need
        the allowance.
        """
        row = self.get_object()
        self.expected_version(row)
        services.allowance_delete(actor=self.actor, allowance=row)
        return Response(status=204)
