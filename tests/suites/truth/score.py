"""Compare words of pages with an observer's record of the same things. Pure.

A word is right if it holds now or held at any time within the last `limit_s` seconds: a page needs time to follow a
change. Times are seconds of one clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

RIGHT, WRONG, SILENT = "right", "wrong", "silent"


@dataclass(frozen=True)
class Word:
    """A page's word about a subject ("site:shop"); `value` is None where the page made no claim."""

    at: float
    subject: str
    value: bool | None


@dataclass
class History:
    """Observed values of one subject, by the time from which each held."""

    times: list[float] = field(default_factory=list)
    values: list[bool] = field(default_factory=list)

    def add(self, at: float, value: bool) -> None:
        if not self.values or self.values[-1] != value:
            self.times.append(at)
            self.values.append(value)

    def between(self, since: float, until: float) -> set[bool]:
        """Every value that held at some time in this period; empty before the first observation."""
        first = max(bisect_right(self.times, since) - 1, 0)
        return set(self.values[first : bisect_right(self.times, until)])

    def changes(self) -> Iterable[tuple[float, bool, float]]:
        """Time, new value and duration in seconds of every change; the last one lasts for ever."""
        for index in range(1, len(self.times)):
            until = self.times[index + 1] if index + 1 < len(self.times) else float("inf")
            yield self.times[index], self.values[index], until - self.times[index]


def verdict(word: Word, history: History, limit_s: float) -> str:
    """RIGHT, WRONG, or SILENT if the page made no claim."""
    if word.value is None:
        return SILENT
    return RIGHT if word.value in history.between(word.at - limit_s, word.at) else WRONG


def delays(words: Sequence[Word], history: History, *, lasting_s: float) -> list[float]:
    """Seconds from each change to the first word that agrees; only changes that lasted `lasting_s`. `inf` if none did.

    `words` are all of the subject, in order of time. Changes to a value that no word claims are left out: a page that
    claims only that all is well cannot agree with the opposite.
    """
    found, claimed = [], {word.value for word in words}
    for at, value, duration in history.changes():
        if duration < lasting_s or value not in claimed or not any(word.at >= at + lasting_s for word in words):
            continue
        agreeing = (word.at - at for word in words if at <= word.at < at + duration and word.value == value)
        found.append(next(agreeing, float("inf")))
    return found


@dataclass
class Line:
    """Result for the subjects of one kind."""

    kind: str
    words: int = 0
    silent: int = 0
    wrong: int = 0
    delays: list[float] = field(default_factory=list)
    examples: list[Word] = field(default_factory=list)


def lines(words: Iterable[Word], histories: dict[str, History], limits: dict[str, float]) -> list[Line]:
    """One line for each kind (the part of the subject before the colon); `limits` are in seconds, by kind."""
    by_subject: dict[str, list[Word]] = {}
    for word in words:
        by_subject.setdefault(word.subject, []).append(word)
    found: dict[str, Line] = {}
    for subject, own in sorted(by_subject.items()):
        kind = subject.partition(":")[0]
        line = found.setdefault(kind, Line(kind))
        history = histories.get(subject, History())
        verdicts = [verdict(word, history, limits[kind]) for word in own]
        line.words += len(own)
        line.silent += verdicts.count(SILENT)
        line.wrong += verdicts.count(WRONG)
        line.delays += delays(own, history, lasting_s=limits[kind])
        line.examples += [word for word, found_ in zip(own, verdicts, strict=True) if found_ == WRONG][:3]
    return list(found.values())


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile; nan without values."""
    if not values:
        return float("nan")
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]
