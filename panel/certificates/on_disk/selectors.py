"""Selectors of certificates on hosts' disks, and of the certificate files that Paddock deployed or reads.

Only administrators see them, because the files of a host may belong to any team.
"""

from __future__ import annotations

import datetime as dt
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.certificates.models import AutomaticCertificate, CertificateReading, HostCertificate
from panel.deployments.models import SiteState
from panel.hosts.models import Host, WebServer
from panel.hosts.selectors import hosts_visible
from panel.websites.certificates import EXPIRY_STEPS, expiry_step
from panel.websites.models import Certificate, CertificateSource
from panel.websites.selectors import CERTIFICATE_IS_USED

CURRENT = dt.timedelta(days=2)  # older readings are not used for alerts
# Programs that renew certificates of at most this lifetime usually do it 30 days before the end.
RENEWED_LIFETIME = dt.timedelta(days=100)
FOLDER, ENDING = "paddock", ".crt"  # Paddock's files: CONFIG_ROOT/paddock/SITE/CERTIFICATE.crt (websites.freeze)


@dataclass(frozen=True)
class Keeper:
    """Use of a certificate file by Paddock: Paddock deployed the file for `site`, or reads it as a file of the host.

    `site` is "" for a file that Paddock only reads. `certificate` is None if the certificate was deleted from the
    panel.
    """

    certificate: Certificate | None
    site: str = ""

    @property
    def automatic(self) -> AutomaticCertificate | None:
        return getattr(self.certificate, "automatic", None)

    @property
    def kind(self) -> str:
        """Return "automatic" for automatic HTTPS, otherwise the source of the certificate.

        The result is "deployed" if the certificate was deleted from the panel.
        """
        if self.automatic is not None:
            return "automatic"
        return str(self.certificate.source) if self.certificate is not None else "deployed"


@dataclass(frozen=True)
class Line:
    """A certificate on a host, as pages and the API show it.

    `keeper` is None if Paddock neither deployed nor reads the file.
    """

    row: HostCertificate
    keeper: Keeper | None


KEEPERS = ("automatic", *CertificateSource.values, "deployed")


def host_certificates_visible(user: User) -> QuerySet[HostCertificate]:
    rows = HostCertificate.objects.select_related("host__certificate_reading")
    if not may(user, Action.ADMINISTER):
        return rows.none()
    return rows.filter(host__in=hosts_visible(user))


def certificates_of_host(user: User, host: Host) -> QuerySet[HostCertificate]:
    """Select the certificates on the disk of one host, the first to expire first."""
    return host_certificates_visible(user).filter(host=host).order_by("not_after", "path")


def readings_visible(user: User) -> QuerySet[CertificateReading]:
    rows = CertificateReading.objects.select_related("host")
    if not may(user, Action.ADMINISTER):
        return rows.none()
    return rows.filter(host__in=hosts_visible(user))


def reading_of_host(user: User, host: Host) -> CertificateReading | None:
    return readings_visible(user).filter(host=host).first()


def lines(rows: Iterable[HostCertificate]) -> list[Line]:
    """Return the certificates, each with its use by Paddock (`Keeper`), in at most four queries."""
    rows = list(rows)
    if not rows:
        return []
    hosts = {row.host_id for row in rows}
    read = Certificate.objects.filter(host__in=hosts, certificate_path__in={row.path for row in rows})
    by_path = {(row.host_id, row.certificate_path): row for row in read.select_related("automatic__site")}
    deployed = _deployed(rows, hosts)
    names = {name for _site, name in deployed.values()}
    by_name = Certificate.objects.filter(name__in=names).select_related("automatic__site").in_bulk(field_name="name")
    found = []
    for row in rows:
        keeper = None
        if row.pk in deployed:
            site, name = deployed[row.pk]
            keeper = Keeper(by_name.get(name), site)
        elif (row.host_id, row.path) in by_path:
            keeper = Keeper(by_path[row.host_id, row.path])
        found.append(Line(row, keeper))
    return found


def _deployed(rows: Sequence[HostCertificate], hosts: set[int]) -> dict[int, tuple[str, str]]:
    """Return {primary key of a HostCertificate: (site name, certificate name)} for the files that Paddock deployed."""
    folders: dict[int, set[str]] = defaultdict(set)
    for host, paths in WebServer.objects.filter(host__in=hosts).values_list("host", "paths"):
        folders[host].add(posixpath.join(paths.get("config_root", "").rstrip("/"), FOLDER))
    named = {}
    for row in rows:
        folder, name = posixpath.split(row.path)
        above, site = posixpath.split(folder)
        if name.endswith(ENDING) and above in folders[row.host_id]:
            named[row.pk] = (site, name.removesuffix(ENDING))
    sites = {site for site, _name in named.values()}
    states = SiteState.objects.filter(site__name__in=sites, revision__web_server__host__in=hosts)
    there = set(states.values_list("site__name", "revision__web_server__host"))
    return {row.pk: named[row.pk] for row in rows if row.pk in named and (named[row.pk][0], row.host_id) in there}


@dataclass(frozen=True)
class Expiring:
    """A certificate that expires and that Paddock does not renew, with all files that contain it.
    `step` is one of EXPIRY_STEPS in days; 0 if the certificate has expired.
    """

    rows: list[HostCertificate]
    step: int


def expiring(user: User) -> list[Expiring]:
    """Return certificates that web servers use and that expire soon, the first to expire first.

    Certificates that a site in Paddock uses are left out, because alerts.certificates reports them. So are files that
    no configuration names: they may be leftovers, or belong to a program that Paddock does not know.
    """
    now = timezone.now()
    soon = (
        host_certificates_visible(user)
        .filter(
            not_after__lt=now + dt.timedelta(days=EXPIRY_STEPS[0]),
            host__certificate_reading__at__gt=now - CURRENT,
            host__is_paused=False,
        )
        .order_by("not_after", "host__name", "path")
    )
    found = [line for line in lines(soon.exclude(named_in=[])) if line.keeper is None or not line.keeper.site]
    if not found:
        return []
    own = {line.keeper.certificate.pk for line in found if line.keeper and line.keeper.certificate}
    known = Q(pk__in=own) | Q(fingerprint__in={line.row.fingerprint for line in found})
    used = Certificate.objects.filter(known, CERTIFICATE_IS_USED).values_list("fingerprint", "pk")
    fingerprints, keys = {fingerprint for fingerprint, _pk in used}, {pk for _fingerprint, pk in used}
    left = [
        line.row
        for line in found
        if line.row.fingerprint not in fingerprints
        and not (line.keeper and line.keeper.certificate and line.keeper.certificate.pk in keys)
    ]
    groups: dict[str, list[HostCertificate]] = defaultdict(list)
    for row in left:
        groups[row.fingerprint].append(row)
    steps = [(group, expiry_of(group[0], now)) for group in groups.values()]
    return [Expiring(group, step) for group, step in steps if step is not None]


def expiry_of(row: HostCertificate, now: dt.datetime) -> int | None:
    """Return the last of EXPIRY_STEPS (days before the expiry) that the certificate has reached.
    0 after the expiry, None before the first step. See websites.certificates.expiry_step.
    """
    is_renewed = row.not_after - row.not_before <= RENEWED_LIFETIME
    return expiry_step(row.not_before, row.not_after, now, most=EXPIRY_STEPS[1 if is_renewed else 0])
