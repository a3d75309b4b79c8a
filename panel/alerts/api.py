"""REST endpoint of alerts."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from panel.alerts.selectors import alerts
from panel.alerts.serializers import AlertSerializer
from panel.api.base import ApiMixin

MOST = 200  # per kind of alert


class AlertsView(ApiMixin):
    """The alerts of the dashboard: about hosts, and about objects of the caller's teams."""

    @extend_schema(responses=AlertSerializer(many=True), operation_id="attention")
    def get(self, request: Request) -> Response:
        """List alerts, most severe first; at most 200 of each kind.

        The order is: hosts, web servers and sites that do not respond, almost full disks, failed deployments, drift,
        certificates, failed runs and reports, then items that wait for a decision.
        """
        return Response(AlertSerializer(alerts(self.actor, MOST), many=True).data)
