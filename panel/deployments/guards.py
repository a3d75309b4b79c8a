"""Checks that other apps call before they delete or move a site, or use paths and names that may be deployed."""

from __future__ import annotations

from django.utils import timezone

from panel.core.errors import ApplicationError, Conflict
from panel.deployments.models import DEPLOYED, Deployment, DeploymentItem, DeploymentStatus, SiteState
from panel.deployments.planning.disabled_files import disabled_revisions
from panel.deployments.planning.selectors import live_revision
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.models import Host, WebServer
from panel.rendering.claims import spec_claims
from panel.websites.models import Site
from panel.websites.paths import spec_paths

_ADVICE = {
    "delete": "To delete the site, first plan its removal from the web server (take-off in the API).",
    "move": "To change the web server, move the site; moving removes the site from this web server.",
}


def removal_guard(site: Site, verb: str) -> None:
    """Raise ApplicationError (code `in_use`) if files of the site are on a host, or Conflict if the site is being
    deployed.

    `verb` is "delete" or "move". With "delete", the function also deletes the site's history if it raises no error.
    """
    states = SiteState.objects.filter(site=site)
    state = states.select_related("revision__web_server__host", "disabled_revision__web_server__host").first()
    if state and state.revision and state.status in DEPLOYED:
        message = f"{site} is live on {state.revision.web_server}. {_ADVICE[verb]}"
        raise ApplicationError(message, field="web_server" if verb == "move" else "", code="in_use")
    if state and state.disabled_revision:
        message = (
            f"{site} is disabled, but its files are still on {state.disabled_revision.web_server}. {_ADVICE[verb]}"
        )
        raise ApplicationError(message, field="web_server" if verb == "move" else "", code="in_use")
    running = (DeploymentStatus.QUEUED, DeploymentStatus.RUNNING)
    if DeploymentItem.objects.filter(site=site, deployment__status__in=running).exists():
        raise Conflict(f"A deployment of {site} is running. Wait until it ends.")
    if verb == "delete":
        history_forget(site)


def history_forget(site: Site) -> None:
    """Delete a site's state and deployment items, which protect its revisions from deletion; cancel its plans."""
    plans = Deployment.objects.filter(items__site=site, status=DeploymentStatus.PLANNED)
    plans.update(status=DeploymentStatus.CANCELLED, finished_at=timezone.now())
    SiteState.objects.filter(site=site).delete()
    DeploymentItem.objects.filter(site=site).delete()


def paths_deployed(site: Site, host: Host) -> set[str]:
    """Return the paths on `host` that the live revision of a site names, for example document roots and logs. Empty if
    the site is not live on this host.
    """
    live = live_revision(site)
    if live is None or live.web_server.host_id != host.pk:
        return set()
    return set(spec_paths(spec_of(live), live.web_server.engine).values())


def claims_deployed(site: Site, web_server: WebServer) -> set[tuple[str, str]]:
    """Return (kind, value) for the names, addresses and services that a site's live or disabled revision uses on
    `web_server`.
    """
    there = [live_revision(site), disabled_revisions([site]).get(site.pk)]
    specs = [spec_of(revision) for revision in there if revision and revision.web_server_id == web_server.pk]
    return {claim.key for spec in specs for claim in spec_claims(spec, web_server.engine)}
