"""REST endpoints of certificates on hosts' disks. Administrators only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action, require
from panel.api.base import Resource
from panel.certificates.models import CertificateReading, HostCertificate
from panel.certificates.on_disk.selectors import host_certificates_visible, lines, readings_visible
from panel.certificates.on_disk.serializers import CertificateReadingSerializer, HostCertificateSerializer


class HostCertificates(Resource):
    """Certificates on the disks of hosts, managed by Paddock or not. Administrators only.

    These are the certificates that configurations of web servers name, and those in usual folders such as
    /etc/letsencrypt/live. They are read every hour, and when a host is checked.
    """

    model = HostCertificate
    serializer_class = HostCertificateSerializer
    reads = Action.ADMINISTER
    filter_fields = {
        "host__name": ["exact", "in"],
        "path": ["exact"],
        "fingerprint": ["exact"],
        "not_after": ["gte", "lte"],
    }
    ordering_fields = ("id", "not_after")
    ordering = "not_after"

    def rows(self) -> QuerySet[HostCertificate]:
        require(self.actor, Action.ADMINISTER)
        return host_certificates_visible(self.actor)

    def paginate_queryset(self, queryset: Any) -> Any:
        rows: Iterable[HostCertificate] = super().paginate_queryset(queryset) or []
        return lines(rows)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.answer(lines([self.get_object()])[0])


class CertificateReadings(Resource):
    """Readings of the certificates on each host's disk: times, and files that were not read. Administrators only."""

    model = CertificateReading
    serializer_class = CertificateReadingSerializer
    reads = Action.ADMINISTER
    filter_fields = {"host__name": ["exact", "in"], "at": ["gte", "lte"]}
    ordering_fields = ("id", "at")

    def rows(self) -> QuerySet[CertificateReading]:
        require(self.actor, Action.ADMINISTER)
        return readings_visible(self.actor)
