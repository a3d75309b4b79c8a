"""Reads of hosts, their web servers and jobs. All users can see hosts, but never their secrets."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from panel.accounts.models import User
from panel.core.jobs import JobStatus
from panel.hosts.models import Host, HostJob, WebServer
from panel.remote.keys import fingerprint


def hosts_visible(user: User) -> QuerySet[Host]:
    """Hosts that the user can see: all, because hosts belong to no team."""
    return Host.objects.all() if user.is_active else Host.objects.none()


def web_servers_visible(user: User) -> QuerySet[WebServer]:
    web_servers = WebServer.objects.select_related("host", "state")
    return web_servers if user.is_active else web_servers.none()


def host_jobs_visible(user: User) -> QuerySet[HostJob]:
    jobs = HostJob.objects.select_related("host", "requested_by")
    return jobs if user.is_active else jobs.none()


def busy_hosts(hosts: Iterable[Host]) -> set[int]:
    """Ids of hosts with a queued or running job."""
    rows = HostJob.objects.filter(host__in=list(hosts), status__in=(JobStatus.QUEUED, JobStatus.RUNNING))
    return set(rows.values_list("host_id", flat=True))


def pinned_fingerprint(host: Host) -> str:
    """SHA256:... of the trusted key, "" if there is none."""
    return fingerprint(host.host_key) if host.host_key else ""


def offered_fingerprint(host: Host) -> str:
    """SHA256:... of the offered key, which must be compared and confirmed."""
    return fingerprint(host.offered_host_key) if host.offered_host_key else ""


def sites_deployed(host: Host) -> list[str]:
    """Names of the sites on the host, which prevent its deletion."""
    return sorted(site.name for web_server in host.web_servers.all() for site in web_server.sites.all())


def host_losses(host: Host) -> list[str]:
    """Effects of deleting the host, in words; sites that prevent it come first."""
    losses = [f"the site {name}, which is deployed there" for name in sites_deployed(host)]
    web_servers, deployments = host.web_servers.count(), host.deployments.count()
    if web_servers:
        words = ngettext("the stored state of %d web server", "the stored state of %d web servers", web_servers)
        losses.append(words % web_servers + " " + _("(the host itself stays unchanged)"))
    if deployments:
        losses.append(
            ngettext("the history of %d deployment", "the history of %d deployments", deployments) % deployments
        )
    return losses
