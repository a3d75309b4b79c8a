"""Selectors of rollouts that a user may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, QuerySet
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import User
from panel.accounts.permissions import team_keys, visible
from panel.deployments.models import Deployment, DeploymentItem
from panel.rollouts.models import Part, Rollout, Wave

GATES = {
    "deployed": _("Deployment"),
    "answers": _("Responses to health checks"),
    "responses": _("Access logs"),
    "hook": _("Hook"),
    "approval": _("Approval"),
}


def rollouts_visible(user: User) -> QuerySet[Rollout]:
    """Select the rollouts whose sites all belong to the user's teams; all for administrators."""
    rows = Rollout.objects.select_related("requested_by")
    if not user.is_admin:
        items = DeploymentItem.objects.filter(deployment__rollout_part__wave__rollout=OuterRef("pk"))
        own = visible(items, user, team_path="site__team")
        rows = rows.filter(Exists(own), ~Exists(items.exclude(site__team__in=team_keys(user))))
    return rows


def with_waves(rows: QuerySet[Rollout]) -> QuerySet[Rollout]:
    deployments = Deployment.objects.select_related("host").defer("plan", "comparison")
    parts = Part.objects.select_related("undo__host").prefetch_related(Prefetch("deployment", deployments))
    waves = Wave.objects.select_related("approved_by").prefetch_related(Prefetch("parts", parts))
    return rows.prefetch_related(Prefetch("waves", waves))


def rollout_of(deployment: Deployment) -> Rollout | None:
    return Rollout.objects.filter(waves__parts__deployment=deployment).first()


@dataclass(frozen=True)
class WaveLine:
    """One wave for display: its hosts, and the newest result of each gate."""

    wave: Wave
    parts: Sequence[Part]
    findings: Sequence[dict[str, Any]]


def wave_lines(rollout: Rollout) -> list[WaveLine]:
    loaded = with_waves(Rollout.objects.filter(pk=rollout.pk)).get()
    lines = []
    for wave in loaded.waves.all():
        findings = [{**row, "label": GATES.get(row["gate"], row["gate"])} for row in wave.evidence]
        lines.append(WaveLine(wave, list(wave.parts.all()), findings))
    return lines
