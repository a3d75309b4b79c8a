"""Health of live sites: separate from their deployment, with its own time of observation."""

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
    """Result of the health pages of one site: success of all of them (None: nobody could ask), and the worst response
    in words.
    """

    is_well: bool | None
    words: str

    @property
    def health(self) -> Health:
        if self.is_well is None:
            return Health.UNKNOWN
        return Health.ANSWERING if self.is_well else Health.FAILING


def healths(checks: Mapping[Deployment, Sequence[Mapping[str, Any]]]) -> dict[tuple[int, int], Observed]:
    """Observations at the end of deployments, by the keys of deployment and site."""
    found = {}
    for deployment, rows in checks.items():
        named = of_checks(rows)
        for line in deployment.plan.sites:
            if line.name in named:
                found[deployment.pk, line.id] = named[line.name]
    return found


def of_checks(rows: Iterable[Mapping[str, Any]]) -> dict[str, Observed]:
    """Observed health of each site, from the checks of a deployment, by the site's name."""
    found: dict[str, Observed] = {}
    for row in rows:
        if row["kind"] != "health":
            continue
        is_well = row["verdict"] in WELL
        if row["site"] not in found or (found[row["site"]].is_well and not is_well):
            found[row["site"]] = Observed(is_well, f"{row['url']} {row['words']}")
    return found


def since(sites: Sequence[int]) -> dict[int, tuple[str, dt.datetime | None]]:
    """Last observed health of these sites, and the time of its beginning."""
    rows = SiteState.objects.filter(site__in=sites).values_list("site_id", "health", "health_since")
    return {site: (health, at) for site, health, at in rows}


def noted(
    found: Observed | None, before: tuple[str, dt.datetime | None] | None, now: dt.datetime
) -> tuple[str, str, dt.datetime | None, dt.datetime | None]:
    """The observation as values of COLUMNS."""
    if found is None:
        return Health.UNKNOWN, "", None, None
    is_as_before = before is not None and before[0] == found.health and before[1] is not None
    return found.health, found.words, now, before[1] if before and is_as_before else now
