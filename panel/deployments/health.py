"""Health of live sites, as observed on their health pages. The model SiteState stores the health and its times in
separate columns.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from panel.deployments.models import Deployment, Health, SiteState
from panel.deployments.observations import WELL

COLUMNS = ("health", "health_words", "health_at", "health_since")


@dataclass(frozen=True)
class Observed:
    """Result of requesting the health pages of one site. `is_well`: whether all responded as expected, None if unknown;
    `words`: the worst response as text.
    """

    is_well: bool | None
    words: str

    @property
    def health(self) -> Health:
        if self.is_well is None:
            return Health.UNKNOWN
        return Health.ANSWERING if self.is_well else Health.FAILING


def healths(checks: Mapping[Deployment, Sequence[Mapping[str, Any]]]) -> dict[tuple[int, int], Observed]:
    """Return {(deployment id, site id): health} from the checks at the end of deployments."""
    found = {}
    for deployment, rows in checks.items():
        named = of_checks(rows)
        for line in deployment.plan.sites:
            if line.name in named:
                found[deployment.pk, line.id] = named[line.name]
    return found


def of_checks(rows: Iterable[Mapping[str, Any]]) -> dict[str, Observed]:
    """Return {site name: health} from the health checks of a deployment. The worst check of a site counts."""
    found: dict[str, Observed] = {}
    for row in rows:
        if row["kind"] != "health":
            continue
        is_well = row["verdict"] in WELL
        if row["site"] not in found or (found[row["site"]].is_well and not is_well):
            found[row["site"]] = Observed(is_well, f"{row['url']} {row['words']}")
    return found


def since(sites: Sequence[int]) -> dict[int, tuple[str, dt.datetime | None]]:
    """Return {site id: (last observed health, time at which this health began)}."""
    rows = SiteState.objects.filter(site__in=sites).values_list("site_id", "health", "health_since")
    return {site: (health, at) for site, health, at in rows}


def noted(
    found: Observed | None, before: tuple[str, dt.datetime | None] | None, now: dt.datetime
) -> tuple[str, str, dt.datetime | None, dt.datetime | None]:
    """Return the values of COLUMNS (health, its text, time of the observation, start of this health) for an
    observation.

    Without an observation, the health is unknown. `before` is the previous health and the time at which it began.
    """
    if found is None:
        return Health.UNKNOWN, "", None, None
    is_as_before = before is not None and before[0] == found.health and before[1] is not None
    return found.health, found.words, now, before[1] if before and is_as_before else now
