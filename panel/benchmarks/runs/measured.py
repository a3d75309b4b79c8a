"""One measured round as plain data: figures and CPU costs. Defines the format of Round.metrics. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from panel.benchmarks.records import BenchOutcome, Samples
from panel.benchmarks.runs import remarks
from panel.benchmarks.tools.parsers.metrics import Metrics, from_json

# Fields that `measured_json` adds to a Metrics; the rest of Round.metrics is the Metrics itself.
_COSTS = ("cpu_s", "wall_s", "phases", "histogram", "open_files", "stopped", "remarks")


@dataclass(frozen=True)
class Measured:
    """Measurements of one round. If `metrics` is None, the round ended without a result and `error` has the reason.

    cpu_s: CPU seconds of the process trees "server", "application" and "tool" during the load, including exited
    children. wall_s: seconds that the load lasted. phases: [[name, from_s, to_s], ...] on the clock of `samples`,
    {"server": [[t_s, cpu_percent, rss_bytes], ...]}.
    """

    target: int
    label: str
    number: int
    metrics: Metrics | None
    cpu_s: dict[str, float] = field(default_factory=dict)
    wall_s: float = 0.0
    phases: list[list[Any]] = field(default_factory=list)
    samples: Samples = field(default_factory=dict)
    error: str = ""
    remarks: list[str] = field(default_factory=list)  # observations besides the figures, in words

    def cpu_per_1000(self, *trees: str) -> float | None:
        """Return the CPU seconds of the process trees `trees` per 1,000 successful requests.
        None if one of the trees was not measured, or if no request succeeded. Runs are comparable by this figure even
        if web server and load tool share CPUs.
        """
        if self.metrics is None or not self.metrics.good or not all(tree in self.cpu_s for tree in trees):
            return None
        return 1000.0 * sum(self.cpu_s[tree] for tree in trees) / self.metrics.good

    def peak_rss(self, tree: str) -> float | None:
        rows = self.samples.get(tree, [])
        return max(row[2] for row in rows) if rows else None

    def cpu_percent(self, tree: str) -> float | None:
        """Return the average CPU use of a process tree during the load, in percent of one CPU; None if the tree was not
        measured.
        """
        if tree not in self.cpu_s or self.wall_s <= 0:
            return None
        return 100.0 * self.cpu_s[tree] / self.wall_s


def measured_json(metrics: Metrics, result: BenchOutcome) -> dict[str, object]:
    """Return the JSON of Round.metrics, made from the parsed figures of a round and the agent's BenchResult."""
    load = next(phase for phase in result["phases"] if phase[0] == "load")
    costs = {
        "cpu_s": result["cpu_s"],
        "wall_s": round(load[2] - load[1], 3),
        "phases": result["phases"],
        "histogram": result["latency"].get("counts", []),
        "open_files": result["open_files"],
        "stopped": result["stopped"],
        "remarks": [*result.get("before", ()), *remarks.remarks(metrics, result.get("server_log", ""))],
    }
    return {**metrics.to_json(), **costs}


def measured_from(
    data: dict[str, Any], samples: Samples, *, target: int, label: str, number: int, error: str
) -> Measured:
    """Build a Measured from a stored round; `data` is the Round.metrics of the round. If `data` is empty,
    Measured.metrics is None.
    """
    if not data:
        return Measured(target, label, number, None, samples=samples, error=error)
    figures = {key: value for key, value in data.items() if key not in _COSTS}
    return Measured(
        target=target,
        label=label,
        number=number,
        metrics=from_json(figures),
        cpu_s=data["cpu_s"],
        wall_s=data["wall_s"],
        phases=data["phases"],
        samples=samples,
        error=error,
        remarks=data.get("remarks", []),
    )
