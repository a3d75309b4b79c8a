"""API views of hosts, their web servers, and jobs. All users can read; only administrators can change."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action, require
from panel.api.base import UUID_REGEX, Resource, all_or_none, all_tagged, require_sudo
from panel.api.logs import PARAMETERS as LOG_PARAMETERS
from panel.api.logs import LogSerializer, logs_answer
from panel.api.serializers import EmptySerializer
from panel.api.traffic import HostTrafficSerializer
from panel.hosts import selectors, services
from panel.hosts.authorities import authorities_visible
from panel.hosts.logs import ServerLog, host_log_search, host_log_tail, host_logs
from panel.hosts.models import Host, HostJob, HostJobKind, SshAuthority, WebServer
from panel.hosts.resources.serializers import ResourcesSerializer, resources_of
from panel.hosts.serializers import (
    JOB_KINDS,
    AdoptInput,
    HostBulkInput,
    HostChange,
    HostDelete,
    HostInput,
    HostJobSerializer,
    HostSerializer,
    PrepareInput,
    ServiceInput,
    SignInSerializer,
    SshAuthorityInput,
    SshAuthoritySerializer,
    TrustInput,
    WebServerInput,
    WebServerSerializer,
)
from panel.hosts.traffic import host_traffic


def queued(job: HostJob) -> Response:
    """Return the response for a queued job: status 202, with the job's URL in the Location header."""
    location = f"/api/v1/jobs/{job.uuid}/"
    return Response(HostJobSerializer(job).data, status=202, headers={"Location": location})


def named_hosts(rows: QuerySet[Host], values: dict[str, Any]) -> list[Host]:
    """Return the hosts of a request body: those whose names are in `hosts`, or those with a tag of `hosts_tagged`."""
    if "hosts_tagged" in values:
        return all_tagged(rows, values["hosts_tagged"], "/hosts_tagged")
    return all_or_none(rows, "name", values["hosts"], "/hosts")


class Hosts(Resource):
    """Hosts to which sites are deployed."""

    model = Host
    serializer_class = HostSerializer
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    writes = Action.ADMINISTER
    versioned = True
    filter_fields = {
        "name": ["exact", "in", "icontains"],
        "status": ["exact", "in"],
        "connection": ["exact"],
        "address": ["exact", "icontains"],
        "is_paused": ["exact"],
        "tags": ["has"],
    }
    ordering_fields = ("id", "name", "created_at")
    ordering = "name"
    dry_run_actions = {
        "create",
        "partial_update",
        "destroy",
        "trust_key",
        "bulk",
        "check",
        "install_native",
        "check_drift",
        "replace_key",
        "adopt_server",
        "prepare",
    }
    parameters = {"logs": LOG_PARAMETERS}

    def rows(self) -> QuerySet[Host]:
        return selectors.hosts_visible(self.actor).select_related("bastion", "authority").prefetch_related("teams")

    @extend_schema(request=HostInput, responses={201: HostSerializer})
    def create(self, request: Request) -> Response:
        """Add a host over SSH. Paddock reads the host key and sends no secret. Compare the key with the host's own key,
        then call `trust-key/`.
        """
        host = services.host_create(actor=self.actor, **self.body(HostInput))
        return self.answer(host, status=201, location=f"/api/v1/hosts/{host.name}/")

    @extend_schema(request=HostChange)
    def partial_update(self, request: Request, name: str = "") -> Response:
        """Change a host. A new address, port or user deletes the stored private key and passwords: send them again."""
        host = self.get_object()
        expected = self.expected_version(host)
        services.host_update(
            actor=self.actor, host=host, expected_version=expected, **self.body(HostChange, partial=True)
        )
        return self.answer(host)

    @extend_schema(request=HostDelete)
    def destroy(self, request: Request, name: str = "") -> Response:
        """Delete the host from the panel; `confirm` is its name. Nothing changes on the host."""
        host = self.get_object()
        expected = self.expected_version(host)
        confirm = self.body(HostDelete)["confirm"]
        services.host_delete(actor=self.actor, host=host, confirm=confirm, expected_version=expected)
        return Response(status=204)

    @extend_schema(responses=SignInSerializer)
    @action(detail=True, url_path="sign-in")
    def sign_in(self, request: Request, name: str = "") -> Response:
        """Return Paddock's public key for the host, and the commands that allow this key on the host. Administrators
        only.
        """
        require(self.actor, Action.ADMINISTER)
        return Response(SignInSerializer(self.get_object()).data)

    @extend_schema(request=TrustInput, responses=HostSerializer)
    @action(detail=True, methods=["post"], url_path="trust-key")
    def trust_key(self, request: Request, name: str = "") -> Response:
        """Trust the host key that the host offers, if its fingerprint equals `fingerprint`. Compare the fingerprint on
        the host first.

        Replacing a trusted key needs a session with a recently confirmed password, and deletes the stored private key
        and passwords of the host: send them again with PATCH.
        """
        confirmed, host = self.body(TrustInput)["fingerprint"], self.get_object()
        if host.host_key:
            require_sudo(request, "replace a trusted host key")
        return self.answer(services.host_trust_key(actor=self.actor, host=host, confirmed=confirmed))

    def _queue_job(self, kind: HostJobKind) -> Response:
        return queued(services.host_job_request(actor=self.actor, host=self.get_object(), kind=kind))

    @extend_schema(request=HostBulkInput, responses={200: HostSerializer(many=True), 202: HostJobSerializer(many=True)})
    @action(detail=False, methods=["post"], pagination_class=None, filter_backends=[])
    def bulk(self, request: Request) -> Response:
        """Change many hosts, all or none.

        `pause` and `resume` control whether jobs may start on the hosts; `tag` adds the tags in `add` and removes the
        tags in `remove`. For these actions, the response contains the hosts (200). Other actions are jobs, one per
        host, at /jobs/{uuid}/ (202). If the same job already waits for a host, no second job is queued.
        """
        values = self.body(HostBulkInput)
        hosts = named_hosts(self.rows(), values)
        if values["action"] == "tag":
            add, remove = values.get("add", []), values.get("remove", [])
            rows = services.hosts_tag(actor=self.actor, hosts=hosts, add=add, remove=remove)
            return Response(self.get_serializer(rows, many=True).data)
        if values["action"] in ("pause", "resume"):
            paused = values["action"] == "pause"
            rows = services.hosts_pause(actor=self.actor, hosts=hosts, paused=paused)
            return Response(self.get_serializer(rows, many=True).data)
        jobs = services.host_jobs_request(actor=self.actor, hosts=hosts, kind=JOB_KINDS[values["action"]])
        return Response(HostJobSerializer(jobs, many=True).data, status=202)

    @extend_schema(request=EmptySerializer, responses={202: HostJobSerializer})
    @action(detail=True, methods=["post"])
    def check(self, request: Request, name: str = "") -> Response:
        """Queue a check of the host: connect, read its facts, and find the installed web servers."""
        return self._queue_job(HostJobKind.CHECK)

    @extend_schema(request=EmptySerializer, responses={202: HostJobSerializer})
    @action(detail=True, methods=["post"], url_path="install-gallop")
    def install_native(self, request: Request, name: str = "") -> Response:
        """Queue a job that installs gallop, the bundled web server, on the host."""
        return self._queue_job(HostJobKind.INSTALL_NATIVE)

    @extend_schema(request=EmptySerializer, responses={202: HostJobSerializer})
    @action(detail=True, methods=["post"], url_path="replace-key")
    def replace_key(self, request: Request, name: str = "") -> Response:
        """Queue a job that replaces the SSH key of the host: the new key is tried before the old one is removed."""
        return self._queue_job(HostJobKind.ROTATE_KEY)

    @extend_schema(request=EmptySerializer, responses={202: HostJobSerializer})
    @action(detail=True, methods=["post"], url_path="check-drift")
    def check_drift(self, request: Request, name: str = "") -> Response:
        """Queue a check for managed files that were edited on the host; results are at /drifts/."""
        return self._queue_job(HostJobKind.DRIFT)

    @extend_schema(request=PrepareInput, responses={202: HostJobSerializer})
    @action(detail=True, methods=["post"])
    def prepare(self, request: Request, name: str = "") -> Response:
        """Queue a job whose result lists the packages that a benchmark application needs. With `plan`, the uuid of such
        a job, the new job installs exactly the listed packages, or nothing.
        """
        values = {key: str(value) for key, value in self.body(PrepareInput).items()}
        kind = HostJobKind.PREPARE
        return queued(services.host_job_request(actor=self.actor, host=self.get_object(), kind=kind, params=values))

    @extend_schema(request=AdoptInput, responses={201: WebServerSerializer})
    @action(detail=True, methods=["post"], url_path="adopt-server")
    def adopt_server(self, request: Request, name: str = "") -> Response:
        """Add a web server that the last check found but did not add: see `other_servers` in the host's facts."""
        web_server = services.web_server_adopt(actor=self.actor, host=self.get_object(), **self.body(AdoptInput))
        headers = {"Location": f"/api/v1/web-servers/{web_server.pk}/"}
        return Response(WebServerSerializer(web_server).data, status=201, headers=headers)

    @extend_schema(responses=ResourcesSerializer)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def resources(self, request: Request, name: str = "") -> Response:
        """Return the last reading of the host's resources, the problems found in this reading, and a history of 14
        days.
        """
        host = self.get_object()
        return Response(ResourcesSerializer(resources_of(host)).data)

    @extend_schema(responses=HostTrafficSerializer)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[], reads=Action.ADMINISTER)
    def traffic(self, request: Request, name: str = "") -> Response:
        """Return the traffic counters of the host's web servers: connections, sites, upstreams, caches. Only gallop has
        counters.
        """
        require(self.actor, Action.ADMINISTER)
        return Response(HostTrafficSerializer({"servers": host_traffic(self.get_object())}).data)

    @extend_schema(responses=LogSerializer)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[], reads=Action.ADMINISTER)
    def logs(self, request: Request, name: str = "") -> Response:
        """Return the last lines of an access or error log of the host's web servers; without `log`, the list of logs.

        With `search` or `day` (UTC, by default today): the newest lines of that day that contain the text in `search`,
        in rotated files too.
        """
        require(self.actor, Action.ADMINISTER)
        host = self.get_object()
        return logs_answer(
            request,
            host_logs(host),
            lambda log, lines: host_log_tail(host, cast(ServerLog, log), lines=lines),
            lambda log, wanted: host_log_search(host, cast(ServerLog, log), wanted),
        )


class WebServers(Resource):
    """Web servers (nginx, Apache httpd, OpenLiteSpeed, gallop) on hosts."""

    model = WebServer
    serializer_class = WebServerSerializer
    writes = Action.ADMINISTER
    versioned = True
    filter_fields = {
        "host__name": ["exact", "in"],
        "engine": ["exact", "in"],
        "label": ["exact"],
        "is_running": ["exact"],
    }
    ordering_fields = ("id", "created_at")
    dry_run_actions = {"create", "partial_update", "destroy", "service"}

    def rows(self) -> QuerySet[WebServer]:
        return selectors.web_servers_visible(self.actor)

    @extend_schema(request=WebServerInput, responses={201: WebServerSerializer})
    def create(self, request: Request) -> Response:
        """Register an existing web server that the checks of its host did not find."""
        web_server = services.web_server_create(actor=self.actor, **self.body(WebServerInput))
        return self.answer(web_server, status=201, location=f"/api/v1/web-servers/{web_server.pk}/")

    @extend_schema(request=WebServerInput)
    def partial_update(self, request: Request, pk: str = "") -> Response:
        web_server = self.get_object()
        expected = self.expected_version(web_server)
        values = self.body(WebServerInput, partial=True)
        services.web_server_update(actor=self.actor, web_server=web_server, expected_version=expected, **values)
        return self.answer(web_server)

    def destroy(self, request: Request, pk: str = "") -> Response:
        web_server = self.get_object()
        services.web_server_delete(
            actor=self.actor, web_server=web_server, expected_version=self.expected_version(web_server)
        )
        return Response(status=204)

    @extend_schema(request=ServiceInput, responses={202: HostJobSerializer})
    @action(detail=True, methods=["post"])
    def service(self, request: Request, pk: str = "") -> Response:
        """Queue a job that starts, stops or reloads the web server."""
        web_server = self.get_object()
        params = {"web_server": web_server.pk, "action": self.body(ServiceInput)["action"]}
        return queued(
            services.host_job_request(actor=self.actor, host=web_server.host, kind=HostJobKind.SERVICE, params=params)
        )


class HostJobs(Resource):
    """Jobs on hosts: checks, web server actions, installations. Each also appears under /jobs/ with
    its event stream.
    """

    model = HostJob
    serializer_class = HostJobSerializer
    lookup_field = "uuid"
    lookup_value_regex = UUID_REGEX
    filter_fields = {
        "host__name": ["exact", "in"],
        "kind": ["exact", "in"],
        "status": ["exact", "in"],
        "created_at": ["gte", "lte"],
    }
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"

    def rows(self) -> QuerySet[HostJob]:
        return selectors.host_jobs_visible(self.actor)


class SshAuthorities(Resource):
    """SSH certificate authorities, which sign host keys or Paddock's keys. Administrators only."""

    model = SshAuthority
    serializer_class = SshAuthoritySerializer
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    writes = Action.ADMINISTER
    versioned = True
    filter_fields = {"name": ["exact", "in"], "kind": ["exact"]}
    ordering_fields = ("id", "name", "created_at")
    ordering = "name"
    dry_run_actions = {"create", "destroy"}

    def rows(self) -> QuerySet[SshAuthority]:
        require(self.actor, Action.ADMINISTER)
        return authorities_visible(self.actor)

    @extend_schema(request=SshAuthorityInput, responses={201: SshAuthoritySerializer})
    def create(self, request: Request) -> Response:
        """Add an authority by its public key (kind "host"), or let Paddock create one (kind "user")."""
        row = services.authority_create(actor=self.actor, **self.body(SshAuthorityInput))
        return self.answer(row, status=201, location=f"/api/v1/ssh-authorities/{row.name}/")

    def destroy(self, request: Request, name: str = "") -> Response:
        """Delete an SSH certificate authority; refused (409) if Paddock signs in to a host with it."""
        row = self.get_object()
        services.authority_delete(actor=self.actor, authority=row, expected_version=self.expected_version(row))
        return Response(status=204)
