"""`python -m tests.suites.benchmark_suites.joined_table FOLDER...`: one table of a suite that was measured in parts.

Of every *.json.gz in the folder (docs/results/http3-2019), each figure with its interval, its server's version, when it
was measured and in which part. Of several for the same case and server the latest counts that may be believed, else
the latest: parts were measured on different days and machines, so compare the servers of one part, not parts. Writes
complete.csv beside them.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from panel.benchmarks.statistics.summary import BY_NAME
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.definitions import PROTOCOLS, Case, stored_case
from panel.benchmarks.suites.tables import printed_value

HEAD = (
    *("case", "link", "protocol", "server", "version", "figure", "unit", "median", "low", "high", "status"),
    *("published", "measured", "part"),
)


def table(folder: Path) -> str:
    """As CSV: a row for every case of the full preset and server that was measured, in the suite's order; one without
    a server for a case that none was measured in."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    names = set()
    for path in sorted(folder.glob("*.json.gz")):
        data = json.loads(gzip.decompress(path.read_bytes()))
        names.add(data["suite"])
        for key, row in _rows(data, path.name.removesuffix(".json.gz")) if data["preset"] == "full" else ():
            if key not in found or _rank(row) > _rank(found[key]):
                found[key] = row
    (name,) = names
    sink = io.StringIO()
    writer = csv.DictWriter(sink, HEAD, lineterminator="\n")
    writer.writeheader()
    for case in SUITES[name].full:
        own = [found[key] for key in ((case.slug, setup.label) for setup in SUITES[name].setups) if key in found]
        writer.writerows(own or [_about(case)])
    return sink.getvalue()


def _rank(row: dict[str, Any]) -> tuple[bool, str]:
    return row["status"] == "finished", row["measured"]


def _about(case: Case) -> dict[str, Any]:
    link = case.network.words if case.network else ""
    return {"case": case.group or case.title, "link": link, "protocol": PROTOCOLS[case.protocol]}


def _rows(data: dict[str, Any], part: str) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """((case, server), row) of every figure."""
    suite = SUITES[data["suite"]]
    known = {case.slug: case for case in suite.full}
    published = {setup.label: setup.published for setup in suite.setups}
    for plan, run in zip(data["plan"], data["runs"], strict=False):
        case = stored_case(plan)
        figure = BY_NAME[case.figure]
        versions = {target["label"]: target["version"] for target in run["fingerprint"].get("targets", ())}
        for target in run["summary"].get("targets", ()):
            label, own = target["label"], target["figures"].get(case.figure)
            if own is None or run["status"] not in ("finished", "invalid"):
                continue
            yield (
                (case.slug, label),
                {
                    **_about(known[case.slug]),
                    "server": label,
                    "version": versions.get(label, ""),
                    "figure": figure.label,
                    "unit": figure.unit,
                    **{
                        name: _rounded(own[key])
                        for name, key in (("median", "value"), ("low", "low"), ("high", "high"))
                    },
                    "status": run["status"],
                    "published": printed_value(suite, case, published[label]) if published[label] else None,
                    "measured": run["finished_at"][:16],
                    "part": part,
                },
            )


def _rounded(value: float | None) -> float | None:
    """To the digits that people read."""
    return None if value is None else round(value, 2)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        (Path(name) / "complete.csv").write_text(table(Path(name)))
