"""API views of /jobs/{uuid}/: all kinds of jobs in one format."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, StreamingHttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.models import ApiToken
from panel.accounts.permissions import Action
from panel.api import jobs, stream
from panel.api.base import ApiMixin
from panel.api.serializers import EmptySerializer
from panel.core.network import client_address


class JobStepSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    status = serializers.CharField()
    log = serializers.CharField(allow_blank=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class JobLinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()
    events = serializers.CharField()
    detail = serializers.CharField()


class JobSerializer(serializers.Serializer[Any]):
    uuid = serializers.UUIDField()
    type = serializers.ChoiceField(
        choices=["deployment", "run", "suite", "comparison", "host_job", "delivery", "certificate_order"]
    )
    title = serializers.CharField()
    status = serializers.CharField()
    is_finished = serializers.BooleanField()
    steps = JobStepSerializer(many=True)
    log = serializers.CharField(allow_blank=True)
    result = serializers.DictField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    links = JobLinksSerializer()


class JobView(ApiMixin):
    """A job of any type: its status, steps, log, and result."""

    @extend_schema(responses=JobSerializer, operation_id="jobs_retrieve")
    def get(self, request: Request, uuid: UUID) -> Response:
        job = jobs.job_find(self.actor, uuid)
        if job is None:
            raise Http404
        return Response(job)


class JobCancelView(ApiMixin):
    """Cancel a job. A queued job is cancelled at once; a running benchmark receives a request to stop."""

    writes = Action.VIEW  # the service of the job's type checks more

    @extend_schema(request=EmptySerializer, responses=JobSerializer, operation_id="jobs_cancel")
    def post(self, request: Request, uuid: UUID) -> Response:
        if not jobs.job_cancel(self.actor, uuid):
            raise Http404
        return Response(jobs.job_find(self.actor, uuid))


class EventStreamRenderer(BaseRenderer):
    """Renderer that lets a view accept text/event-stream. It renders errors as JSON; the stream is sent without a
    renderer.
    """

    media_type = "text/event-stream"
    format = "stream"
    charset = None

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return JSONRenderer().render(data)


class JobEventsView(ApiMixin):
    """Stream the changes of a job as server-sent events: `step`, `job` and `end`, with JSON data."""

    renderer_classes = [EventStreamRenderer, JSONRenderer]

    @extend_schema(
        responses={(200, "text/event-stream"): OpenApiResponse(str, "Server-sent events")}, operation_id="jobs_events"
    )
    def get(self, request: Request, uuid: UUID) -> StreamingHttpResponse:
        if jobs.job_find(self.actor, uuid) is None:
            raise Http404
        token = request.auth if isinstance(request.auth, ApiToken) else None
        address = client_address(request._request)
        session = "" if token else request._request.session.session_key or ""
        return StreamingHttpResponse(
            stream.events(self.actor, token, address, uuid, session=session),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
