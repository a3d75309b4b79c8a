"""REST endpoints of enrollments."""

from __future__ import annotations

import datetime as dt

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import Resource
from panel.enrollments import script, services
from panel.enrollments.models import Enrollment
from panel.enrollments.selectors import enrollments_visible
from panel.enrollments.serializers import CreatedEnrollmentSerializer, EnrollmentInput, EnrollmentSerializer
from panel.enrollments.views import panel_url


class Enrollments(Resource):
    """Enrollments, with which new hosts add themselves by one command. Administrators only."""

    model = Enrollment
    serializer_class = EnrollmentSerializer
    writes = Action.ADMINISTER
    shown_once = ("token", "command", "cloud_init")
    filter_fields = {"username": ["exact"], "tags": ["has"]}
    ordering_fields = ("id", "created_at", "expires_at")
    ordering = "-id"
    dry_run_actions = {"create", "destroy"}

    def rows(self) -> QuerySet[Enrollment]:
        return enrollments_visible(self.actor)

    @extend_schema(request=EnrollmentInput, responses={201: CreatedEnrollmentSerializer})
    def create(self, request: Request) -> Response:
        """Create an enrollment. Only this response contains its token and the commands with the token."""
        values = self.body(EnrollmentInput)
        valid_for = dt.timedelta(hours=values.pop("hours"))
        row, token = services.enrollment_create(actor=self.actor, valid_for=valid_for, **values)
        url = panel_url(request)
        once = {"token": token, "command": script.command(url, token), "cloud_init": script.cloud_init(url, token)}
        headers = {"Location": f"/api/v1/enrollments/{row.pk}/"}
        return Response(EnrollmentSerializer(row).data | once, status=201, headers=headers)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str = "") -> Response:
        """Revoke the enrollment, so that no further host can use it. Hosts that it added stay."""
        services.enrollment_revoke(actor=self.actor, enrollment=self.get_object())
        return Response(status=204)
