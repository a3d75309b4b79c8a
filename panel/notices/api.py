"""What needs attention, over the API."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from panel.api.base import ApiMixin
from panel.notices.concerns import concerns
from panel.notices.serializers import ConcernSerializer

MOST = 200  # of each kind of trouble


class AttentionView(ApiMixin):
    """What the dashboard says needs attention: of hosts, and of what the caller's teams own."""

    @extend_schema(responses=ConcernSerializer(many=True), operation_id="attention")
    def get(self, request: Request) -> Response:
        """Worst first: hosts and servers that do not answer, failed deployments, drift, certificates, runs and reports
        that say something is wrong, then what merely waits. At most 200 of each; empty when all is well."""
        return Response(ConcernSerializer(concerns(self.actor, MOST), many=True).data)
