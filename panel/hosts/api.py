"""Hosts, the servers on them, and errands over the API. Everyone may look; administrators change."""

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
from panel.hosts.logs import ServerLog, host_log_tail, host_logs
from panel.hosts.models import EngineInstall, Host, HostOperation, OperationKind
from panel.hosts.serializers import (
    ERRANDS,
    AdoptInput,
    HostBulkInput,
    HostDelete,
    HostInput,
    HostSerializer,
    InstallInput,
    InstallSerializer,
    OperationSerializer,
    PrepareInput,
    ServiceInput,
    TrustInput,
)
from panel.hosts.traffic import host_traffic


def queued(operation: HostOperation) -> Response:
    """The errand waits for a worker: 202 and where to follow it."""
    location = f"/api/v1/jobs/{operation.uuid}/"
    return Response(OperationSerializer(operation).data, status=202, headers={"Location": location})


def named_hosts(rows: QuerySet[Host], values: dict[str, Any]) -> list[Host]:
    """Those that a body names in `hosts`, or by their tags in `hosts_tagged`."""
    if "hosts_tagged" in values:
        return all_tagged(rows, values["hosts_tagged"], "/hosts_tagged")
    return all_or_none(rows, "name", values["hosts"], "/hosts")


class Hosts(Resource):
    """Machines that sites are deployed to."""

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
        "adopt_server",
        "prepare",
    }
    parameters = {"logs": LOG_PARAMETERS}

    def rows(self) -> QuerySet[Host]:
        return selectors.hosts_visible(self.actor)

    @extend_schema(request=HostInput, responses={201: HostSerializer})
    def create(self, request: Request) -> Response:
        """Adds a host over SSH. Its key is fetched, no secret is sent; compare it, then `trust-key/`."""
        host = services.host_create(actor=self.actor, **self.body(HostInput))
        return self.answer(host, status=201, location=f"/api/v1/hosts/{host.name}/")

    @extend_schema(request=HostInput)
    def partial_update(self, request: Request, name: str = "") -> Response:
        """Changes a host. A new address, port or user clears the stored private key and passwords: send them along."""
        host = self.get_object()
        expected = self.expected_version(host)
        services.host_update(
            actor=self.actor, host=host, expected_version=expected, **self.body(HostInput, partial=True)
        )
        return self.answer(host)

    @extend_schema(request=HostDelete)
    def destroy(self, request: Request, name: str = "") -> Response:
        """Forgets the host; `confirm` is its name. On the host nothing changes."""
        host = self.get_object()
        expected = self.expected_version(host)
        confirm = self.body(HostDelete)["confirm"]
        services.host_delete(actor=self.actor, host=host, confirm=confirm, expected_version=expected)
        return Response(status=204)

    @extend_schema(request=TrustInput, responses=HostSerializer)
    @action(detail=True, methods=["post"], url_path="trust-key")
    def trust_key(self, request: Request, name: str = "") -> Response:
        """Trusts the key that the host offers, if it is the one named: compare it with the host's own words first.

        A key in place of a trusted one needs a session whose owner has just confirmed the password. It clears the
        stored private key and passwords: send them again with PATCH.
        """
        confirmed, host = self.body(TrustInput)["fingerprint"], self.get_object()
        if host.host_key:
            require_sudo(request, "replace a trusted host key")
        return self.answer(services.host_trust_key(actor=self.actor, host=host, confirmed=confirmed))

    def _errand(self, kind: OperationKind) -> Response:
        return queued(services.operation_request(actor=self.actor, host=self.get_object(), kind=kind))

    @extend_schema(
        request=HostBulkInput, responses={200: HostSerializer(many=True), 202: OperationSerializer(many=True)}
    )
    @action(detail=False, methods=["post"], pagination_class=None, filter_backends=[])
    def bulk(self, request: Request) -> Response:
        """What is done to many hosts, all or none.

        `pause` and `resume` say whether anything may begin there, `tag` gives and takes tags (`add`, `remove`); they
        answer with the hosts (200). The rest are errands, each with a job of its own, /jobs/{uuid}/ (202); a host that
        waits for this errand already answers with the one that waits.
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
        operations = services.operations_request(actor=self.actor, hosts=hosts, kind=ERRANDS[values["action"]])
        return Response(OperationSerializer(operations, many=True).data, status=202)

    @extend_schema(request=EmptySerializer, responses={202: OperationSerializer})
    @action(detail=True, methods=["post"])
    def check(self, request: Request, name: str = "") -> Response:
        """Connects, reads the facts and finds the servers that are installed."""
        return self._errand(OperationKind.CHECK)

    @extend_schema(request=EmptySerializer, responses={202: OperationSerializer})
    @action(detail=True, methods=["post"], url_path="install-gallop")
    def install_native(self, request: Request, name: str = "") -> Response:
        """Brings the bundled web server to the host."""
        return self._errand(OperationKind.INSTALL_NATIVE)

    @extend_schema(request=EmptySerializer, responses={202: OperationSerializer})
    @action(detail=True, methods=["post"], url_path="check-drift")
    def check_drift(self, request: Request, name: str = "") -> Response:
        """Looks whether managed files were edited on the host; what is found is at /drifts/."""
        return self._errand(OperationKind.DRIFT)

    @extend_schema(request=PrepareInput, responses={202: OperationSerializer})
    @action(detail=True, methods=["post"])
    def prepare(self, request: Request, name: str = "") -> Response:
        """What the distribution would install for an application of suites: the job's result. With `plan`, that job's
        uuid, exactly this is installed, or nothing."""
        values = {key: str(value) for key, value in self.body(PrepareInput).items()}
        kind = OperationKind.PREPARE
        return queued(services.operation_request(actor=self.actor, host=self.get_object(), kind=kind, params=values))

    @extend_schema(request=AdoptInput, responses={201: InstallSerializer})
    @action(detail=True, methods=["post"], url_path="adopt-server")
    def adopt_server(self, request: Request, name: str = "") -> Response:
        """Takes in a server that the last check found and left alone: see `other_servers` among the host's facts."""
        install = services.install_adopt(actor=self.actor, host=self.get_object(), **self.body(AdoptInput))
        headers = {"Location": f"/api/v1/installs/{install.pk}/"}
        return Response(InstallSerializer(install).data, status=201, headers=headers)

    @extend_schema(responses=HostTrafficSerializer)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[], reads=Action.ADMINISTER)
    def traffic(self, request: Request, name: str = "") -> Response:
        """What the host's servers counted: connections, sites, upstreams, caches. Only gallop tells it."""
        require(self.actor, Action.ADMINISTER)
        return Response(HostTrafficSerializer({"servers": host_traffic(self.get_object())}).data)

    @extend_schema(responses=LogSerializer)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[], reads=Action.ADMINISTER)
    def logs(self, request: Request, name: str = "") -> Response:
        """The last lines of a common log of the host's servers; without `log`, which logs there are."""
        require(self.actor, Action.ADMINISTER)
        host = self.get_object()
        return logs_answer(
            request, host_logs(host), lambda log, lines: host_log_tail(host, cast(ServerLog, log), lines=lines)
        )


class Installs(Resource):
    """Web servers on hosts."""

    model = EngineInstall
    serializer_class = InstallSerializer
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

    def rows(self) -> QuerySet[EngineInstall]:
        return selectors.installs_visible(self.actor)

    @extend_schema(request=InstallInput, responses={201: InstallSerializer})
    def create(self, request: Request) -> Response:
        """Registers a server that is there and was not found by itself."""
        install = services.install_create(actor=self.actor, **self.body(InstallInput))
        return self.answer(install, status=201, location=f"/api/v1/installs/{install.pk}/")

    @extend_schema(request=InstallInput)
    def partial_update(self, request: Request, pk: str = "") -> Response:
        install = self.get_object()
        expected = self.expected_version(install)
        values = self.body(InstallInput, partial=True)
        services.install_update(actor=self.actor, install=install, expected_version=expected, **values)
        return self.answer(install)

    def destroy(self, request: Request, pk: str = "") -> Response:
        install = self.get_object()
        services.install_delete(actor=self.actor, install=install, expected_version=self.expected_version(install))
        return Response(status=204)

    @extend_schema(request=ServiceInput, responses={202: OperationSerializer})
    @action(detail=True, methods=["post"])
    def service(self, request: Request, pk: str = "") -> Response:
        """Starts, stops or reloads the server."""
        install = self.get_object()
        params = {"install": install.pk, "action": self.body(ServiceInput)["action"]}
        return queued(
            services.operation_request(actor=self.actor, host=install.host, kind=OperationKind.SERVICE, params=params)
        )


class Operations(Resource):
    """Errands on hosts: checks, server actions, installations. Each is a job too, with its event stream."""

    model = HostOperation
    serializer_class = OperationSerializer
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

    def rows(self) -> QuerySet[HostOperation]:
        return selectors.operations_visible(self.actor)
