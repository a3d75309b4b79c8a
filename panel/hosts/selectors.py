"""Reading hosts, their servers and what was asked of them. Every user may see hosts; secrets are never among it."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from panel.accounts.models import User
from panel.core.jobs import JobStatus
from panel.hosts.models import EngineInstall, Host, HostOperation
from panel.remote.keys import fingerprint


def hosts_visible(user: User) -> QuerySet[Host]:
    """Hosts belong to no team: whoever may sign in may see them."""
    return Host.objects.all() if user.is_active else Host.objects.none()


def installs_visible(user: User) -> QuerySet[EngineInstall]:
    installs = EngineInstall.objects.select_related("host", "state")
    return installs if user.is_active else installs.none()


def operations_visible(user: User) -> QuerySet[HostOperation]:
    operations = HostOperation.objects.select_related("host", "requested_by")
    return operations if user.is_active else operations.none()


def busy_hosts(hosts: Iterable[Host]) -> set[int]:
    """Keys of those that an errand waits for or goes on at."""
    rows = HostOperation.objects.filter(host__in=list(hosts), status__in=(JobStatus.QUEUED, JobStatus.RUNNING))
    return set(rows.values_list("host_id", flat=True))


def pinned_fingerprint(host: Host) -> str:
    """SHA256:... of the trusted key, "" while there is none."""
    return fingerprint(host.host_key) if host.host_key else ""


def offered_fingerprint(host: Host) -> str:
    """SHA256:... of the key that waits to be compared and confirmed."""
    return fingerprint(host.offered_host_key) if host.offered_host_key else ""


def sites_standing(host: Host) -> list[str]:
    """The names of the sites that stand on the host and forbid deleting it."""
    return sorted(site.name for install in host.installs.all() for site in install.sites.all())


def host_losses(host: Host) -> list[str]:
    """What deleting the host would lose, in words; the sites that forbid it come first."""
    losses = [f"the site {name}, which is deployed there" for name in sites_standing(host)]
    installs, deployments = host.installs.count(), host.deployments.count()
    if installs:
        words = ngettext("the stored state of %d web server", "the stored state of %d web servers", installs)
        losses.append(words % installs + " " + _("(the host itself stays unchanged)"))
    if deployments:
        losses.append(
            ngettext("the history of %d deployment", "the history of %d deployments", deployments) % deployments
        )
    return losses
