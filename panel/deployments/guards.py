"""What deployments have to say before websites forgets a site or gives it to another server."""

from __future__ import annotations

from django.utils import timezone

from panel.core.errors import ApplicationError, Conflict
from panel.deployments.models import Deployment, DeploymentItem, DeploymentStatus, SiteState, SiteStatus
from panel.deployments.planning import live_revision
from panel.deployments.rendered import spec_of
from panel.hosts.models import Host
from panel.websites.models import Site
from panel.websites.paths import spec_paths

_ADVICE = {
    "delete": "Plan to take it off that server (take-off in the API); then it is deleted.",
    "move": "Move it instead, which takes it off that server.",
}


def removal_guard(site: Site, verb: str) -> None:
    """`verb` is delete or move. Raises ApplicationError (in_use) when the site stands on a host."""
    states = SiteState.objects.filter(site=site)
    state = states.select_related("revision__install__host", "resting__install__host").first()
    if state and state.revision and state.status in (SiteStatus.LIVE, SiteStatus.DRIFTED):
        message = f"{site} is served by {state.revision.install}. {_ADVICE[verb]}"
        raise ApplicationError(message, field="install" if verb == "move" else "", code="in_use")
    if state and state.resting:
        message = f"{site} is disabled, and its files lie on {state.resting.install} still. {_ADVICE[verb]}"
        raise ApplicationError(message, field="install" if verb == "move" else "", code="in_use")
    running = (DeploymentStatus.QUEUED, DeploymentStatus.RUNNING)
    if DeploymentItem.objects.filter(site=site, deployment__status__in=running).exists():
        raise Conflict(f"{site} is being deployed. Wait until that has ended.")
    if verb == "delete":
        history_forget(site)


def history_forget(site: Site) -> None:
    """Let go of what protects the site's revisions; they go with it. Plans for it alone are discarded."""
    plans = Deployment.objects.filter(items__site=site, status=DeploymentStatus.PLANNED)
    plans.update(status=DeploymentStatus.CANCELLED, finished_at=timezone.now())
    SiteState.objects.filter(site=site).delete()
    DeploymentItem.objects.filter(site=site).delete()


def paths_standing(site: Site, host: Host) -> set[str]:
    """The paths that the site serves and logs to on `host` now."""
    live = live_revision(site)
    return set(spec_paths(spec_of(live)).values()) if live and live.install.host_id == host.pk else set()
