"""Web servers that a comparison started: stop them after the comparison, unless sites or users need them by then."""

from __future__ import annotations

from datetime import datetime

from panel.core.errors import ApplicationError
from panel.core.jobs import JobStatus
from panel.deployments.models import DEPLOYED, DeploymentItem, SiteState
from panel.deployments.planning.services import ACTIVE
from panel.hosts.jobs import server_told
from panel.hosts.locks import host_lock
from panel.hosts.models import HostJob, HostJobKind, WebServer

LOCK_WAIT_S = 30.0


def is_stopped(web_server: WebServer) -> bool:
    """Return whether no process of the web server runs. Raises RemoteError."""
    return not server_told(web_server, "status")["running"]


def stop_again(web_server: WebServer, holder: str, since: datetime) -> None:
    """Stop a web server that was started for a comparison, unless sites or users need the web server now.
    `since` is the start of the comparison. Raises ApplicationError if the web server keeps running, or if its host is
    busy or unreachable.
    """
    with host_lock(web_server.host, holder, wait_s=LOCK_WAIT_S):
        if _is_needed(web_server, since):
            return
        running = server_told(web_server, "stop")["running"]
    if running:
        raise ApplicationError(
            f"{web_server} was started for the server comparison and could not be "
            f"stopped. Stop this web server on its host."
        )


def _is_needed(web_server: WebServer, since: datetime) -> bool:
    """Return whether the web server must keep running: a site is deployed on it, a deployment to it is queued or
    running, or a user has started it since the comparison started (`since`).
    """
    starts = HostJob.objects.filter(
        host=web_server.host, kind=HostJobKind.SERVICE, params__web_server=web_server.pk, params__action="start"
    )
    wanted = starts.filter(status__in=(JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.SUCCEEDED))
    stands = SiteState.objects.filter(status__in=DEPLOYED, revision__web_server=web_server)
    comes = DeploymentItem.objects.filter(revision__web_server=web_server, deployment__status__in=ACTIVE)
    return stands.exists() or comes.exists() or wanted.exclude(finished_at__lt=since).exists()
