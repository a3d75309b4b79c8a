"""The checks of a deployment in words: verified only if every site was observed to be right."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.core.ui import Text
from panel.deployments.models import Deployment

Check = Mapping[str, Any]
WELL = ("right", "changed")
_HEALTH = "health"


def observed_record(rows: Iterable[tuple[Deployment, Sequence[Check]]]) -> None:
    """Store the requests to the sites of these deployments, and the result of the observations."""
    found = []
    for deployment, checks in rows:
        deployment.checks = list(checks)
        sites = [line.name for line in deployment.plan.sites if line.number is not None]
        deployment.is_verified = is_verified(checks, sites)
        deployment.observation = observation(checks)
        found.append(deployment)
    if found:
        Deployment.objects.bulk_update(found, ["checks", "is_verified", "observation"])


def is_verified(checks: Sequence[Check], sites: Iterable[str]) -> bool:
    """Return true if the health page of each site responded as expected and no other check got worse."""
    asked = {check["site"] for check in checks if check["kind"] == _HEALTH}
    wanted = set(sites)
    well = all(check["verdict"] in WELL for check in checks if check["kind"] == _HEALTH or check["verdict"] == "worse")
    return bool(wanted) and wanted <= asked and well


def observation(checks: Sequence[Check]) -> str:
    """The observed problems, one sentence for each site; "" if there are none."""
    told: dict[str, str] = {}
    for check in sorted(checks, key=lambda item: item["kind"] != _HEALTH):
        if check["verdict"] not in WELL and check["kind"] != "other":
            told.setdefault(check["site"], sentence(check))
    return " ".join(list(told.values())[:5])


def sentence(check: Check) -> str:
    """One sentence about a check, such as `The health page responds with 502, as before.`"""
    values = {"site": check["site"], "url": check["url"], "words": check["words"]}
    if check["kind"] == _HEALTH:
        return _("%(site)s: the health page %(url)s %(words)s.") % values
    return _("%(site)s: %(url)s %(words)s.") % values


KINDS: dict[str, Text] = {
    "health": gettext_lazy("Health page"),
    "location": gettext_lazy("Location"),
    "address": gettext_lazy("Busy address"),
    "takeover": gettext_lazy("Taken-over address"),
    "other": gettext_lazy("Other site"),
}
VERDICTS: dict[str, tuple[str, Text]] = {
    "right": ("ok", gettext_lazy("right")),
    "changed": ("info", gettext_lazy("changed")),
    "same": ("warn", gettext_lazy("same trouble as before")),
    "waits": ("warn", gettext_lazy("new, not responding yet")),
    "worse": ("bad", gettext_lazy("worse than before")),
}
_ORDER = ("worse", "same", "waits", "changed", "right")


@dataclass(frozen=True)
class Line:
    """One check for display. Times are those of the responses."""

    site: str
    kind: Text
    url: str
    at: str
    tone: str
    verdict: Text
    words: str
    before: str
    after: str
    asked_at: dt.datetime | None


def lines_of(checks: Iterable[Check]) -> list[Line]:
    """Lines of the observations for a page: failures first, then by site."""
    rows = sorted(checks, key=lambda row: (_ORDER.index(row["verdict"]), row["site"], row["kind"] != _HEALTH))
    return [_line(row) for row in rows]


def _line(row: Check) -> Line:
    tone, verdict = VERDICTS[row["verdict"]]
    at = row["after"].get("at")
    return Line(
        site=row["site"],
        kind=KINDS[row["kind"]],
        url=row["url"],
        at=row["at"],
        tone=tone,
        verdict=verdict,
        words=row["words"],
        before=response_words(row["before"]),
        after=response_words(row["after"]),
        asked_at=dt.datetime.fromtimestamp(at, dt.UTC) if at else None,
    )


def response_words(seen: Mapping[str, Any] | None) -> str:
    """A response in words: `200`, `301 to https://shop.example/`, or why there was none; "" if nothing was sent."""
    if seen is None:
        return ""
    if not seen.get("status"):
        return str(seen.get("error") or _("no response"))
    values = {"status": seen["status"], "target": seen.get("to")}
    return _("%(status)s to %(target)s") % values if values["target"] else str(seen["status"])
