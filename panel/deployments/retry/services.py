"""Make a new plan for a deployment that failed, was replaced by a newer plan, or was discarded."""

from __future__ import annotations

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.core.errors import ApplicationError, Conflict
from panel.deployments.main_file.services import main_plan
from panel.deployments.models import Deployment, DeploymentKind, DeploymentStatus, OnSuccess
from panel.deployments.planning.services import deployment_plan, site_rollback, sites_delete, sites_disable, sites_move
from panel.websites.models import Site

_ENDED = {DeploymentStatus.ROLLED_BACK, DeploymentStatus.FAILED, DeploymentStatus.CANCELLED}


def _sites(deployment: Deployment) -> list[Site]:
    """Return the sites of a deployment that still exist."""
    return [item.site for item in deployment.items.select_related("site__team", "site__web_server__host")]


def can_replan(deployment: Deployment) -> bool:
    """Return whether a new plan can be made for a deployment: it did not succeed, or still waits for confirmation.

    The second half of a move cannot be planned without the first.
    """
    waits = deployment.status == DeploymentStatus.PLANNED and deployment.confirmed_at is None
    if deployment.kind in (DeploymentKind.CERTIFICATE, DeploymentKind.MAINTENANCE):  # which the panel plans by itself
        return False
    is_left = deployment.kind == DeploymentKind.MAIN or deployment.items.exists()
    return (waits or deployment.status in _ENDED) and deployment.waits_for_id is None and is_left


def may_replan(user: User, deployment: Deployment) -> bool:
    if not can_replan(deployment):
        return False
    if deployment.kind == DeploymentKind.MAIN:
        return may(user, Action.ADMINISTER)
    return all(may(user, Action.DEPLOY, site.team) for site in _sites(deployment))


def deployment_replan(*, actor: User, deployment: Deployment) -> list[Deployment]:
    """Make a new plan of the same kind for the sites of `deployment`, from their current state.

    Returns [] if the change took effect without a plan. Raises the errors of the service that plans this kind of
    deployment.
    """
    if not can_replan(deployment):
        raise Conflict(f"{deployment} cannot be planned again. Plan a deployment of the sites instead.")
    sites, target = _sites(deployment), deployment.target
    match deployment.kind:
        case DeploymentKind.MAIN:
            if target is None:
                raise ApplicationError(
                    "The web server of this main file is no longer in the panel, so there is nothing to plan."
                )
            return [main_plan(actor=actor, web_server=target, managed=bool(deployment.plan.main_files))]
        case DeploymentKind.DISABLE:
            is_deletion = deployment.on_success == OnSuccess.DELETE
            return (sites_delete if is_deletion else sites_disable)(actor=actor, sites=sites)
        case DeploymentKind.MOVE:
            if target is None:
                raise ApplicationError(
                    "The target web server of this move is no longer in the panel. Move the site to another web server."
                )
            version = next((pool.php_version for pool in deployment.plan.new_pools), "")
            return sites_move(actor=actor, sites=sites, web_server=target, php_version=version)
        case DeploymentKind.ROLLBACK:
            item = deployment.items.select_related("site__team", "revision__web_server__host").get()
            assert item.revision is not None
            return [site_rollback(actor=actor, site=item.site, revision=item.revision)]
        case kind:
            return deployment_plan(actor=actor, sites=sites, kind=DeploymentKind(kind))
