"""Rows of suites from their published JSON exports (docs/results/)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from panel.accounts.models import User
from panel.benchmarks.models import Round, Run, RunTarget, SuiteRun
from panel.benchmarks.suites import SUITES
from panel.hosts.models import Host

RESULTS = Path(__file__).parents[2] / "docs" / "results"
# Labels that were changed after results were recorded: the recorded label -> the slug of its setup.
_FORMER_LABELS = {"OpenLiteSpeed + lsphp it starts": "openlitespeed-socket"}
# Keys that were renamed after results were recorded.
_FORMER_KEYS = {"stand": "testbed", "stands": "testbeds", "install": "web_server", "installs": "web_servers"}


def suite_row(name: str, owner: User, host: Host, *, cases: int | None = None, **changed: Any) -> SuiteRun:
    """Create the suite of docs/results/{name}.json.gz on a host with all its servers, or its first `cases` only."""
    recorded = gzip.decompress((RESULTS / f"{name}.json.gz").read_bytes())
    data = json.loads(recorded, object_pairs_hook=_with_present_keys)
    data |= {"plan": data["plan"][:cases], "runs": data["runs"][:cases]}
    row = SuiteRun.objects.create(
        requested_by=owner,
        host=host,
        host_name=host.name,
        chosen=data["part"] or {},
        setups=_setups(data),
        position=len(data["runs"]),
        **{name: data[name] for name in ("suite", "preset", "title", "plan", "left_out", "status", "finished_at")}
        | changed,
    )
    for case, run in enumerate(data["runs"]):
        _run(row, case, run)
    return row


def _with_present_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {_FORMER_KEYS.get(key, key): value for key, value in pairs}


def _setups(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The setups that took part, with the recorded labels and the protocols of their requests."""
    setups = SUITES[data["suite"]].setups
    slugs = {setup.label: setup.slug for setup in setups} | _FORMER_LABELS
    found: dict[str, dict[str, Any]] = {}
    for run in data["runs"]:
        for target in run["targets"]:
            slug = slugs[target["label"]]
            own = found.setdefault(slug, {"slug": slug, "label": target["label"], "protocols": []})
            own["protocols"].append(run["parameters"]["arguments"].get("protocol", "h1"))
    return [found[setup.slug] for setup in setups if setup.slug in found]


def _run(row: SuiteRun, case: int, data: dict[str, Any]) -> None:
    kept = ("title", "status", "reasons", "error", "started_at", "finished_at", "parameters", "fingerprint", "summary")
    run = Run.objects.create(
        suite_run=row, case=case, requested_by=row.requested_by, **{name: data[name] for name in kept}
    )
    slugs = {setup["label"]: setup["slug"] for setup in row.setups}
    assert row.host
    web_servers = {web_server.engine: web_server for web_server in row.host.web_servers.all()}
    targets = {
        target["position"]: RunTarget.objects.create(
            run=run, setup=slugs[target["label"]], web_server=web_servers[target["engine"]], **target
        )
        for target in data["targets"]
    }
    Round.objects.bulk_create(
        Round(
            target=targets[item["target"]],
            **{name: value for name, value in item.items() if name not in ("target", "warm_up")},
        )
        for item in data["rounds"]
    )
