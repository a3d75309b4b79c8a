"""Store and describe the checks of a deployment: requests to its sites, and whether the sites respond as expected."""

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
    """Store the checks of deployments, and derive `is_verified` and `observation` from them."""
    found: list[Deployment] = []
    alike: dict[tuple[bool, str], list[int]] = {}
    for deployment, checks in rows:
        deployment.checks = list(checks)
        sites = [line.name for line in deployment.plan.sites if line.number is not None]
        deployment.is_verified = is_verified(checks, sites)
        deployment.observation = observation(checks)
        alike.setdefault((deployment.is_verified, deployment.observation), []).append(deployment.pk)
        found.append(deployment)
    Deployment.objects.bulk_update(found, ["checks"])
    for (verified, words), pks in alike.items():  # most deployments have the same values
        Deployment.objects.filter(pk__in=pks).update(is_verified=verified, observation=words)


def is_verified(checks: Sequence[Check], sites: Iterable[str]) -> bool:
    """Return true if the health page of each site responded as expected and no other check got worse."""
    asked = {check["site"] for check in checks if check["kind"] == _HEALTH}
    wanted = set(sites)
    well = all(check["verdict"] in WELL for check in checks if check["kind"] == _HEALTH or check["verdict"] == "worse")
    return bool(wanted) and wanted <= asked and well


def observation(checks: Sequence[Check]) -> str:
    """Return the observed problems, one sentence per site, of at most five sites; "" if there are none."""
    told: dict[str, str] = {}
    for check in sorted(checks, key=lambda item: item["kind"] != _HEALTH):
        if check["verdict"] not in WELL and check["kind"] != "other":
            told.setdefault(check["site"], sentence(check))
    return " ".join(list(told.values())[:5])


def sentence(check: Check) -> str:
    """Return one sentence about a check, such as `shop: the health page https://shop.example/ responds with 502.`"""
    values = {"site": check["site"], "url": check["url"], "words": check["words"]}
    if check["kind"] == _HEALTH:
        return _("%(site)s: the health page %(url)s %(words)s.") % values
    return _("%(site)s: %(url)s %(words)s.") % values


KINDS: dict[str, Text] = {
    "health": gettext_lazy("Health page"),
    "location": gettext_lazy("Location"),
    "address": gettext_lazy("Address from the access log"),
    "takeover": gettext_lazy("Address of an adopted site"),
    "other": gettext_lazy("Other site"),
}
VERDICTS: dict[str, tuple[str, Text]] = {
    "right": ("ok", gettext_lazy("as expected")),
    "changed": ("info", gettext_lazy("changed")),
    "same": ("warn", gettext_lazy("same problem as before")),
    "waits": ("warn", gettext_lazy("new, not responding yet")),
    "worse": ("bad", gettext_lazy("worse than before")),
}
_ORDER = ("worse", "same", "waits", "changed", "right")


@dataclass(frozen=True)
class Line:
    """One check of a deployment as a page shows it; `asked_at` is the time of the response after the change."""

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
    """Return the checks of a deployment as lines for a page: failures first, then by site."""
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
    """Describe a response, for example `200` or `301 to https://shop.example/`. Return the error if no response
    arrived, "" if no request was sent.
    """
    if seen is None:
        return ""
    if not seen.get("status"):
        return str(seen.get("error") or _("no response"))
    values = {"status": seen["status"], "target": seen.get("to")}
    return _("%(status)s to %(target)s") % values if values["target"] else str(seen["status"])
