"""Selectors: previews that a user can see."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, may, visible
from panel.deployments.models import Deployment, DeploymentItem
from panel.previews.models import KINDS, Preview
from panel.websites.models import Site


def previews_visible(user: User) -> QuerySet[Preview]:
    """Return the previews of plans whose sites all belong to the user's teams, because previews list URLs that visitors
    requested.
    """
    rows = Preview.objects.select_related("requested_by", "deployment__host").defer("deployment__plan")
    if user.is_admin:
        return visible(rows, user)
    foreign = DeploymentItem.objects.exclude(site__in=visible(Site.objects.all(), user))
    shown = visible(rows, user, team_path="deployment__items__site__team")
    return rows.filter(pk__in=shown.values("pk")).exclude(deployment__items__in=foreign)


def latest_previews(user: User, batch: Sequence[Deployment]) -> list[Preview]:
    """Return the newest preview of each plan that has one, in the order of the plans."""
    newest: dict[int, Preview] = {}
    for preview in previews_visible(user).filter(deployment__in=[plan.pk for plan in batch]):
        newest.setdefault(preview.deployment_id, preview)
    return [newest[plan.pk] for plan in batch if plan.pk in newest]


def teams_of(deployment: Deployment) -> list[Team]:
    """Return the teams of the deployment's sites."""
    return list(Team.objects.filter(sites__deployment_items__deployment=deployment).distinct())


def may_deploy(user: User, deployment: Deployment) -> bool:
    """Return whether the user may deploy each site of the deployment."""
    return all(may(user, Action.DEPLOY, team) for team in teams_of(deployment))


def may_preview(user: User, deployment: Deployment) -> bool:
    """Return whether the user can preview the plan.
    The plan must replace the live version of at least one site, and the user must be allowed to deploy its sites.
    """
    if deployment.kind not in KINDS:
        return False
    compares = deployment.items.filter(revision__isnull=False, previous__isnull=False).exists()
    return compares and may_deploy(user, deployment)
