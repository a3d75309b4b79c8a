"""Selectors of the last deployments of certificates, which show whether a site must be deployed alone next."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import OuterRef, Subquery

from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, DeploymentStatus
from panel.websites.models import Site


def last_deployments(sites: Iterable[Site]) -> dict[int, Deployment]:
    """Return {site id: last deployment of certificates} for the sites that have such a deployment."""
    own = DeploymentItem.objects.filter(site=OuterRef("pk"), deployment__kind=DeploymentKind.CERTIFICATE)
    last = Subquery(own.order_by("-deployment_id").values("deployment_id")[:1])
    rows = Site.objects.filter(pk__in=[site.pk for site in sites]).annotate(last_deployment=last)
    keys = dict(rows.exclude(last_deployment=None).values_list("pk", "last_deployment"))
    found = Deployment.objects.in_bulk(set(keys.values()))
    return {site: found[key] for site, key in keys.items() if key in found}


def was_rolled_back(deployment: Deployment | None) -> bool:
    return deployment is not None and deployment.status == DeploymentStatus.ROLLED_BACK


def was_rolled_back_together(deployment: Deployment | None) -> bool:
    """Return whether the deployment was rolled back and had several sites, so that any of these sites can be the cause.
    False for None.
    """
    return deployment is not None and was_rolled_back(deployment) and deployment.items.count() > 1
