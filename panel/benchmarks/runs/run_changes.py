"""Changes between two measurements of the same load, and their significance. Pure functions.
`intervals.unpaired` tests whether the rounds of the two runs differ. `intervals.scatter` tests whether the two runs
differ by more than runs usually do, judging by the earlier runs since the last change (changepoints.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from panel.benchmarks.records import Fingerprint, HostFacts, TargetFacts
from panel.benchmarks.runs import comparability
from panel.benchmarks.runs.measured import Measured
from panel.benchmarks.statistics import intervals
from panel.benchmarks.statistics.changepoints import change_points
from panel.benchmarks.statistics.intervals import Interval, Ratio, Verdict
from panel.benchmarks.statistics.summary import BY_NAME, FIGURES

# Values of one figure of one target in the earlier valid runs, oldest first.
Earlier = Mapping[tuple[str, str], Sequence[float]]


class Reality(StrEnum):
    REAL = "real"  # different, and beyond the usual variation between runs
    LIKELY = "likely"  # the rounds differ, but there are too few rounds or earlier runs to be sure
    USUAL = "usual"  # the rounds differ, but within the usual variation between runs
    NONE = "none"  # no difference shown
    TOO_FEW = "too_few"


@dataclass(frozen=True)
class Change:
    """Change of one figure of one target since the previous run. `ratio` is the current value divided by the previous
    value.

    `usual` is the interval in which the value varies without a change, computed from `runs` earlier runs; None if too
    few earlier runs exist.
    """

    label: str
    figure: str
    now: float
    before: float
    ratio: Ratio
    usual: Interval | None
    runs: int
    reality: Reality

    @property
    def is_better(self) -> bool:
        return (self.ratio.value > 1) == (BY_NAME[self.figure].better == "higher")


COMPARED = tuple(figure.name for figure in FIGURES if figure.compared)


def changes(
    now: Sequence[Measured], before: Sequence[Measured], earlier: Earlier, figures: Sequence[str] = COMPARED
) -> list[Change]:
    """Return the changes of the given figures for every target of both runs, matched by label.

    `now` and `before` are the rounds of the two runs. `earlier` maps (label, figure) to the values in runs before
    `now`. A figure that was zero in all rounds of `now` or of `before` has no ratio and is left out, for example CPU
    time below the kernel's tick.
    """
    found = []
    for label in dict.fromkeys(measured.label for measured in now):
        for name in figures:
            own, other = _values(now, label, name), _values(before, label, name)
            if any(value > 0 for value in own) and any(value > 0 for value in other):
                found.append(_change(label, name, own, other, earlier.get((label, name), ())))
    return found


def _values(rounds: Sequence[Measured], label: str, figure: str) -> list[float]:
    of = BY_NAME[figure].of
    return [value for measured in rounds if measured.label == label and (value := of(measured)) is not None]


def _change(label: str, figure: str, own: list[float], other: list[float], earlier: Sequence[float]) -> Change:
    ratio = intervals.unpaired(own, other)
    alike = since_last_change(earlier)
    usual = intervals.scatter(alike)
    now = intervals.median(own)
    reality = _reality(ratio, usual, now)
    return Change(label, figure, now, intervals.median(other), ratio, usual, len(alike), reality)


def since_last_change(earlier: Sequence[float]) -> Sequence[float]:
    points = change_points(earlier)
    return earlier[points[-1].index :] if points else earlier


def _reality(ratio: Ratio, usual: Interval | None, now: float) -> Reality:
    if ratio.verdict == Verdict.TOO_FEW or ratio.interval is None:
        return Reality.TOO_FEW
    if ratio.verdict == Verdict.NO_DIFFERENCE:
        return Reality.NONE
    if usual is None:
        return Reality.LIKELY
    if usual.low <= now <= usual.high:
        return Reality.USUAL
    return Reality.REAL if ratio.interval.confidence >= intervals.CONFIDENCE else Reality.LIKELY


def around(now: Fingerprint, before: Fingerprint) -> list[str]:
    """Describe, in sentences, the differences between the fingerprints of two runs: targets, versions, revisions,
    kernels, content.
    """
    old, new = ({target["label"]: target for target in side.get("targets", [])} for side in (before, now))
    shared = [label for label in new if label in old]
    found = [f"{label} is new in this run" for label in new if label not in old]
    found += [f"{label} was in the previous run but is not in this run" for label in old if label not in new]
    return found + comparability.changes(_part(before, old, shared), _part(now, new, shared))


def _part(side: Fingerprint, targets: Mapping[str, TargetFacts], labels: Sequence[str]) -> Fingerprint:
    """Return a fingerprint with only the targets in `labels`, in this order, and without boot ids.
    Values that an older version of the panel did not record are None.
    """
    missing = {"revision": None, "version": None, "content": None}
    full = [cast(TargetFacts, {**missing, **targets[label]}) for label in labels]
    # A restart alone is not a change; the boot id would always be reported.
    hosts = {
        host: cast(HostFacts, {key: value for key, value in seen.items() if key != "boot_id"})
        for host, seen in side.get("hosts", {}).items()
    }
    return {"hosts": hosts, "targets": full}
