"""REST API of sites and certificates."""

from __future__ import annotations

import datetime as dt
from base64 import b64encode
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.models import User
from panel.api import etags
from panel.api.base import Resource, all_or_none, all_tagged, one, require_sudo
from panel.api.logs import PARAMETERS as LOG_PARAMETERS
from panel.api.logs import LogSerializer, logs_answer
from panel.api.problems import ApiError, parameter_error
from panel.api.serializers import EmptySerializer
from panel.api.traffic import SiteRequestsSerializer, SiteTrafficSerializer
from panel.hosts.models import WebServer
from panel.hosts.selectors import web_servers_visible
from panel.websites import checks, linting, services
from panel.websites.logs import site_log_search, site_log_tail, site_logs
from panel.websites.models import Certificate, Site
from panel.websites.requests import MAX_HOURS, site_requests
from panel.websites.selectors import certificates_visible, sites_visible
from panel.websites.serializers.certificates import (
    CertificateExport,
    CertificateExported,
    CertificateReplace,
    CertificateSelfSign,
    CertificateSerializer,
    CertificateUpload,
)
from panel.websites.serializers.sites import (
    BulkInput,
    CloneInput,
    FindingSerializer,
    FixInput,
    PresetSite,
    ProblemOfSite,
    QuickSite,
    SiteChange,
    SiteSerializer,
)
from panel.websites.services.definition import changes_snippets
from panel.websites.traffic import site_traffic

MAX_BULK = 1000


def web_server_named(user: User, pk: int | None) -> WebServer | None:
    if pk is None:
        return None
    web_server = web_servers_visible(user).filter(pk=pk).first()
    if web_server is None:
        detail = f"No web server has the ID {pk}; /api/v1/web-servers/ lists them."
        raise ApiError("invalid", detail, [{"pointer": "/web_server", "detail": detail}])
    return web_server


def named_sites(rows: QuerySet[Site], values: dict[str, Any]) -> list[Site]:
    """Return the sites that a request body lists by name in `sites` or selects by tag in `sites_tagged`.

    Raises ApiError if a name is unknown.
    """
    if "sites_tagged" in values:
        return all_tagged(rows, values["sites_tagged"], "/sites_tagged")
    return all_or_none(rows, "name", values["sites"], "/sites")


class Sites(Resource):
    """Sites: their domains, content and settings. Changes reach a host only through a deployment."""

    model = Site
    serializer_class = SiteSerializer
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    versioned = True
    filter_fields = {
        "name": ["exact", "in", "icontains"],
        "team__slug": ["exact", "in"],
        "enabled": ["exact"],
        "web_server": ["exact", "in", "isnull"],
        "web_server__engine": ["exact", "in"],
        "web_server__host__name": ["exact", "in"],
        "state__status": ["exact", "in"],
        "state__health": ["exact", "in"],
        "blocks__names__name": ["exact", "icontains"],
        "tags": ["has"],
        "web_server__host__tags": ["has"],
        "created_at": ["gte", "lte"],
        "updated_at": ["gte", "lte"],
    }
    ordering_fields = ("id", "name", "created_at", "updated_at")
    ordering = "name"
    parameters = {"logs": LOG_PARAMETERS, "requests": {"hours"}}
    dry_run_actions = {
        "create",
        "quick",
        "from_preset",
        "fix",
        "partial_update",
        "destroy",
        "definition",
        "clone",
        "enable",
        "bulk",
    }

    def rows(self) -> QuerySet[Site]:
        rows = sites_visible(self.actor).select_related("state")
        return rows.prefetch_related("blocks__names")

    # --- writes ---

    def _define(self, data: Any, site: Site | None = None, expected: int | None = None) -> Site:
        if not isinstance(data, dict):
            raise ApiError(
                "invalid", "Send a JSON object with the site's definition.", [{"pointer": "", "detail": "Send {}."}]
            )
        before = services.site_export(site) if site else {}
        if self.request.auth is None and changes_snippets(before, data):
            require_sudo(self.request, "write raw directives")
        return services.site_define(actor=self.actor, data=data, site=site, expected_version=expected)

    @extend_schema(request=OpenApiTypes.OBJECT, responses={201: SiteSerializer})
    def create(self, request: Request) -> Response:
        """Create a site from its definition, or several from a list of definitions; if one definition is invalid, none
        is created.
        """
        if not isinstance(request.data, list):
            site = self._define(request.data)
            return self.answer(site, status=201, location=f"/api/v1/sites/{site.name}/")
        if not 0 < len(request.data) <= MAX_BULK:
            raise ApiError("invalid", f"Send 1 to {MAX_BULK} definitions.")
        with transaction.atomic():
            sites = [self._define(item) for item in request.data]
        return Response(self.get_serializer(sites, many=True).data, status=201)

    @extend_schema(request=QuickSite, responses={201: SiteSerializer})
    @action(detail=False, methods=["post"])
    def quick(self, request: Request) -> Response:
        """Create a site from a few values: files below `root`, or a proxy for `upstream`."""
        values = self.body(QuickSite)
        values["web_server"] = web_server_named(self.actor, values.get("web_server"))
        if "certificate" in values:
            found = certificates_visible(self.actor)
            values["certificate"] = one(found, "name", values["certificate"], "/certificate")
        site = services.site_create(actor=self.actor, **values)
        return self.answer(site, status=201, location=f"/api/v1/sites/{site.name}/")

    @extend_schema(request=PresetSite, responses={201: SiteSerializer})
    @action(detail=False, methods=["post"], url_path="from-preset")
    def from_preset(self, request: Request) -> Response:
        """Create a site from a preset, such as `wordpress` or `django`, with the protection that it needs."""
        values = self.body(PresetSite)
        values["web_server"] = web_server_named(self.actor, values.get("web_server"))
        if "certificate" in values:
            found = certificates_visible(self.actor)
            values["certificate"] = one(found, "name", values["certificate"], "/certificate")
        site = services.site_from_preset(actor=self.actor, **values)
        return self.answer(site, status=201, location=f"/api/v1/sites/{site.name}/")

    @extend_schema(request=SiteChange)
    def partial_update(self, request: Request, name: str = "") -> Response:
        """Change name, team, web server, health_path, cache_mb, notes, tags. Deployed sites change their web server
        with `move/`.
        """
        site = self.get_object()
        expected = self.expected_version(site)
        values = self.body(SiteChange)
        with transaction.atomic():
            if "web_server" in values:
                web_server = web_server_named(self.actor, values.pop("web_server"))
                services.site_web_server_set(
                    actor=self.actor, site=site, web_server=web_server, expected_version=expected
                )
                expected = None
            if values:
                services.site_update(actor=self.actor, site=site, expected_version=expected, **values)
        return self.answer(site)

    def destroy(self, request: Request, name: str = "") -> Response:
        """Delete an undeployed site. Remove a deployed site first: plan this with `take-off/`."""
        site = self.get_object()
        services.site_delete(actor=self.actor, site=site, expected_version=self.expected_version(site))
        return Response(status=204)

    @extend_schema(methods=["GET"], responses=OpenApiTypes.OBJECT)
    @extend_schema(methods=["PUT"], request=OpenApiTypes.OBJECT, responses=OpenApiTypes.OBJECT)
    @action(detail=True, methods=["get", "put"])
    def definition(self, request: Request, name: str = "") -> Response:
        """Return the definition of the whole site. PUT changes the site to match a definition, completely or not at
        all.

        GET shows "(secret)" instead of password hashes. PUT with "(secret)" keeps the stored hash.
        """
        site = self.get_object()
        if request.method == "PUT":
            site = self._define(request.data, site, self.expected_version(site))
        return Response(services.site_export(site), headers=etags.headers_of(site))

    @extend_schema(request=CloneInput, responses={201: SiteSerializer})
    @action(detail=True, methods=["post"])
    def clone(self, request: Request, name: str = "") -> Response:
        """Copy the site under another name. Without `domains`, the copy has the server names of the original.

        A copy on the same web server and port with the same server names starts disabled, because two enabled sites
        cannot share a name.
        """
        values = self.body(CloneInput)
        values["web_server"] = web_server_named(self.actor, values.get("web_server"))
        made = services.site_clone(actor=self.actor, site=self.get_object(), **values)
        return self.answer(made, status=201, location=f"/api/v1/sites/{made.name}/")

    @extend_schema(request=EmptySerializer, responses=SiteSerializer)
    @action(detail=True, methods=["post"])
    def enable(self, request: Request, name: str = "") -> Response:
        """Enable the site in its draft; the next deployment enables it on the host."""
        site = self.get_object()
        expected = self.expected_version(site)
        services.site_enable(actor=self.actor, site=site, enabled=True, expected_version=expected)
        return self.answer(site)

    @extend_schema(request=BulkInput, responses=SiteSerializer(many=True))
    @action(detail=False, methods=["post"], pagination_class=None, filter_backends=[])
    def bulk(self, request: Request) -> Response:
        """Change many sites, all or none. `enable` and `disable` change the drafts; deploy them afterwards. `move` and
        `take-off` plan deployments that move or remove the sites. `tag` adds and removes tags.
        """
        values = self.body(BulkInput)
        sites = named_sites(self.rows(), values)
        if values["action"] == "tag":
            add, remove = values.get("add", []), values.get("remove", [])
            rows = services.sites_tag(actor=self.actor, sites=sites, add=add, remove=remove)
            return Response(self.get_serializer(rows, many=True).data)
        if values["action"] in ("move", "take-off"):
            return self.planned_for(sites, web_server_named(self.actor, values.get("web_server")))
        with transaction.atomic():
            for site in sites:
                services.site_enable(actor=self.actor, site=site, enabled=values["action"] == "enable")
        return Response(self.get_serializer(sites, many=True).data)

    def planned_for(self, sites: list[Site], web_server: WebServer | None) -> Response:
        """Plan to move sites to another web server or, if `web_server` is None, to remove them from their web servers.
        Implemented in the app deployments.
        """
        raise NotImplementedError

    @extend_schema(responses=ProblemOfSite(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def problems(self, request: Request, name: str = "") -> Response:
        """List the problems that prevent a deployment of the site."""
        found = checks.site_problems(self.get_object(), actor=self.actor)
        return Response([{"pointer": f"/{item.where}", "detail": item.message} for item in found])

    @extend_schema(responses=FindingSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def findings(self, request: Request, name: str = "") -> Response:
        """List the warnings about the draft: known mistakes, their reasons, and the fixes that `fix/` applies."""
        found: Any = linting.site_findings(self.get_object())
        return Response(FindingSerializer(found, many=True).data)

    @extend_schema(request=FixInput, responses=SiteSerializer)
    @action(detail=True, methods=["post"])
    def fix(self, request: Request, name: str = "") -> Response:
        """Apply the fix of a warning to the draft."""
        site, values = self.get_object(), self.body(FixInput)
        where = values["pointer"].removeprefix("/")
        if request.auth is None and linting.finding_get(site, values["code"], where).is_raw:
            require_sudo(request, "write raw directives")
        fixed, _finding = linting.finding_fix(
            actor=self.actor, site=site, code=values["code"], where=where, expected_version=self.expected_version(site)
        )
        return self.answer(fixed)

    @extend_schema(responses=SiteTrafficSerializer)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def traffic(self, request: Request, name: str = "") -> Response:
        """Return gallop's counters for the site: requests, status classes, latencies. Other web servers have no such
        counters.
        """
        return Response(SiteTrafficSerializer(site_traffic(self.get_object())).data)

    @extend_schema(responses=LogSerializer)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def logs(self, request: Request, name: str = "") -> Response:
        """Return the last lines of one of the site's logs on its host. Without `log`, return the list of logs.

        With `search` (a text) or `day` (UTC, today by default), return the newest matching lines of the day, also from
        rotated files.
        """
        site = self.get_object()
        return logs_answer(
            request,
            site_logs(self.actor, site),
            lambda log, lines: site_log_tail(self.actor, site, log, lines=lines),
            lambda log, wanted: site_log_search(self.actor, site, log, wanted),
        )

    @extend_schema(responses=SiteRequestsSerializer)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def requests(self, request: Request, name: str = "") -> Response:
        """Return the numbers of requests, responses by status class, and bytes of the last `hours` (default 24),
        counted on the host in the site's own access logs: by hour, or by day (UTC) for more than 48 hours.
        """
        raw = request.query_params.get("hours", "24")
        if not (raw.isascii() and raw.isdecimal() and len(raw) < 5 and 1 <= int(raw) <= MAX_HOURS):
            raise parameter_error("hours", f"Send a whole number from 1 to {MAX_HOURS}.")
        with timezone.override(dt.UTC):
            return Response(SiteRequestsSerializer(site_requests(self.actor, self.get_object(), int(raw))).data)


class Certificates(Resource):
    """Certificates of sites. Private keys are write-only, except in an encrypted export."""

    model = Certificate
    shown_once = ("pkcs12",)
    serializer_class = CertificateSerializer
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    versioned = True
    filter_fields = {
        "name": ["exact", "in", "icontains"],
        "team__slug": ["exact", "in"],
        "source": ["exact"],
        "not_after": ["gte", "lte"],
    }
    ordering_fields = ("id", "name", "not_after", "created_at")
    ordering = "name"
    dry_run_actions = {"create", "self_sign", "update", "destroy"}

    def rows(self) -> QuerySet[Certificate]:
        return certificates_visible(self.actor)

    @extend_schema(request=CertificateUpload, responses={201: CertificateSerializer})
    def create(self, request: Request) -> Response:
        """Upload a certificate with its chain and key."""
        made = services.certificate_upload(actor=self.actor, **self.body(CertificateUpload))
        return self.answer(made, status=201, location=f"/api/v1/certificates/{made.name}/")

    @extend_schema(request=CertificateSelfSign, responses={201: CertificateSerializer})
    @action(detail=False, methods=["post"], url_path="self-sign")
    def self_sign(self, request: Request) -> Response:
        """Create a private key and a self-signed certificate in the panel."""
        made = services.certificate_self_sign(actor=self.actor, **self.body(CertificateSelfSign))
        return self.answer(made, status=201, location=f"/api/v1/certificates/{made.name}/")

    @extend_schema(request=CertificateReplace)
    def update(self, request: Request, name: str = "") -> Response:
        """Replace the certificate under the same name. Sites use the new certificate from their next deployment on."""
        row = self.get_object()
        expected = self.expected_version(row)
        services.certificate_replace(
            actor=self.actor, certificate=row, expected_version=expected, **self.body(CertificateReplace)
        )
        return self.answer(self.get_object())

    @extend_schema(request=CertificateExport, responses=CertificateExported)
    @action(detail=True, methods=["post"])
    def pkcs12(self, request: Request, name: str = "") -> Response:
        """Export the certificate with its private key as PKCS #12, encrypted with `password`."""
        row = self.get_object()
        require_sudo(request, "export private keys")
        made = services.certificate_export(actor=self.actor, certificate=row, **self.body(CertificateExport))
        return Response({"pkcs12": b64encode(made).decode()})

    def destroy(self, request: Request, name: str = "") -> Response:
        row = self.get_object()
        services.certificate_delete(actor=self.actor, certificate=row, expected_version=self.expected_version(row))
        return Response(status=204)
