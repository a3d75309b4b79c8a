"""Send the same requests before and after a change, and compare each response with the earlier response.

Health pages and other sites are always requested. The busiest URLs and one URL of each location are requested until
the time limit; after the change, only requests that were sent before it are repeated.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable

from agents.host import probe, request, verdict
from agents.host.request import Request

EXTRA_S = 10.0  # for all addresses of one round that are neither health pages nor other sites
MOST_EXTRAS = 400
PATIENT_S = 30.0  # after this time of a round, each request has only one second
RETRY_FOR_S = 2.0
RETRY_ALL_S = 10.0  # together
MOST_TOLD = 200  # rows without problems and changes, except health pages
_ALWAYS = ("health", "other")


def before(asked: Request) -> list[dict[str, Any]]:
    """Send the requests before a change; return [{"probe": check, "seen": observation}], where a check is the data of a
    Probe.

    "seen" is None for a fresh address, which served nothing before. Checks that the time limit cuts off are left out.
    """
    checks = _unique([*(_of_others(check) for check in asked.guards), *asked.probes])
    always = [check for check in checks if check["kind"] in _ALWAYS]
    extras = [check for check in checks if check["kind"] not in _ALWAYS]
    return _round(always, extras[:MOST_EXTRAS], _seen_before)


def _of_others(guard: dict[str, Any]) -> dict[str, Any]:
    return guard if guard["kind"] == "takeover" else dict(guard, kind="other", fresh=False)


def _unique(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the checks without repeated requests; the later of two equal requests is kept.

    The caller puts requests to other sites (guards) first, so that a request of the transaction's own sites is kept
    with its own expectations.
    """
    return list({(probe.describe(check), check["kind"] == "takeover"): check for check in checks}.values())


def _seen_before(check: dict[str, Any]) -> dict[str, Any] | None:
    if check["seen"] is not None:
        return dict(check["seen"])
    return None if check["fresh"] else probe.observe(probe.before_of(check))


def _round(
    always: list[dict[str, Any]],
    extras: list[dict[str, Any]],
    ask: Callable[[dict[str, Any]], dict[str, Any] | None],
) -> list[dict[str, Any]]:
    began = time.monotonic()
    rows = [{"probe": check, "seen": ask(_hurried(check, began))} for check in always]
    until = time.monotonic() + EXTRA_S
    for check in extras:
        if time.monotonic() > until:
            break
        rows.append({"probe": check, "seen": ask(check)})
    return rows


def _hurried(check: dict[str, Any], began: float) -> dict[str, Any]:
    is_late = time.monotonic() - began > PATIENT_S
    return dict(check, timeout_s=min(1.0, check["timeout_s"])) if is_late else check


def observed(asked: Request) -> list[dict[str, Any]]:
    """Request the health pages of the sites, for a transaction that has nothing to change; return rows in the form of
    `after`.
    """
    rows = []
    for check in asked.probes:
        if check["kind"] == "health":
            seen = probe.observe(check)
            rows.append(_row(check, seen, seen))
    return rows


def after(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Repeat the requests in `answers`, the result of `before`, after a change. Return a row for each.

    A row is {"site", "kind", "url", "at", "verdict", "words", "before", "after"}. A request with a worse response is
    repeated for up to RETRY_FOR_S seconds, because a server may still be starting.
    """
    patience = [RETRY_ALL_S]
    began = time.monotonic()
    rows = []
    for item in answers:
        is_extra = item["probe"]["kind"] not in _ALWAYS
        if is_extra and time.monotonic() - began > PATIENT_S:
            continue
        rows.append(_until_not_worse(item["probe"], item["seen"], patience))
    return rows


def _until_not_worse(check: dict[str, Any], seen: dict[str, Any] | None, patience: list[float]) -> dict[str, Any]:
    began = time.monotonic()
    pause = 0.02
    while True:
        row = _row(check, seen, probe.observe(check))
        spent = time.monotonic() - began
        if row["verdict"] != verdict.WORSE or spent + pause > min(RETRY_FOR_S, check["timeout_s"], patience[0]):
            patience[0] -= spent
            return row
        time.sleep(pause)
        pause *= 2


def _row(check: dict[str, Any], seen: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    judged, words = verdict.judge(check, seen, now)
    return {
        "site": check["site"],
        "kind": check["kind"],
        "url": probe.url(check),
        "at": check["address"],
        "verdict": judged,
        "words": words,
        "before": seen,
        "after": now,
    }


def problems(rows: list[dict[str, Any]], *, anyway: bool) -> list[str]:
    """Return the reasons to roll the change back, as sentences; [] if there are none.

    A response that is worse than before is a reason. With `anyway`, it is a reason only if it is of another site than
    those of the change.
    """
    found = []
    for row in rows:
        if row["verdict"] != verdict.WORSE:
            continue
        if row["kind"] == "other":
            found.append("another site responds worse than before: %s" % sentence(row))
        elif not anyway:
            found.append(sentence(row))
    return found


def sentence(row: dict[str, Any]) -> str:
    place = "%s at %s %s" % (row["url"], row["at"], row["words"])
    return "%s: %s" % (row["site"], place) if row["site"] else place


def told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Select the rows for the result: all health pages, problems and changes, and the first MOST_TOLD of the remaining
    rows. Rows of other sites (guards) are left out, because these sites may belong to another team.
    """
    known = [row for row in rows if row["kind"] != "other"]
    kept, left = [], MOST_TOLD
    for row in known:
        if row["kind"] != "health" and row["verdict"] == verdict.RIGHT:
            left -= 1
            if left < 0:
                continue
        kept.append(row)
    return kept


def proven(answers: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Repeat the requests after an undo, for sites that responded before the change. Return two lists of sentences:
    about responses that are worse than before the change, and about all others.
    """
    wrong: list[str] = []
    right: list[str] = []
    patience = [RETRY_ALL_S]
    for item in answers:
        check, seen = remembered(item)
        if seen is None or not (seen["connected"] if check["stream"] else seen["status"]) or check["seen"] is not None:
            continue
        there = dict(probe.before_of(check), was=[], new=False, exact=False)
        row = _until_not_worse(there, seen, patience)
        (wrong if row["verdict"] == verdict.WORSE else right).append(sentence(row))
    return wrong, right


def remembered(item: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return (check, observation) from an entry of the journal; an entry by an earlier version of the agent has only
    the status of the observation.
    """
    check = request.check_probe(item["probe"])
    if "seen" in item:
        return check, item["seen"]
    return check, {"status": item["status"], "connected": True}


def worst(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return only the rows with problems or changes, health pages first."""
    return sorted((row for row in rows if row["verdict"] != verdict.RIGHT), key=lambda row: row["kind"] != "health")
