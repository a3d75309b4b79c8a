"""What stands at the top of a report: what changed since last time, and whether it is real. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from panel.benchmarks import since_words
from panel.benchmarks.since import Change, Reality
from panel.reports.choices import Outcome


@dataclass(frozen=True)
class Top:
    outcome: Outcome
    headline: str
    changes: list[str]


def of_changes(found: Sequence[Change], since: str) -> Top:
    """`since` names the run before, "" when there is none to compare with."""
    if not since:
        return Top(Outcome.FIRST, "The first report of this: there is nothing to compare it with yet.", [])
    if not found:
        return Top(Outcome.FIRST, f"Nothing was measured both now and in {since}, so nothing can be compared.", [])
    real = [change for change in found if change.reality == Reality.REAL]
    likely = [change for change in found if change.reality == Reality.LIKELY]
    sentences = [since_words.sentence(change) for change in sorted(real, key=_worst_first)]
    sentences += [since_words.sentence(change) for change in sorted(likely, key=_worst_first)]
    if real:
        worse = [change for change in real if not change.is_better]
        outcome = Outcome.WORSE if worse else Outcome.BETTER
        return Top(outcome, f"{_count(real)} since {since}. {sentences[0]}", sentences)
    if likely:
        words = f"Perhaps a change since {since}, but not sure yet. {sentences[0]}"
        return Top(Outcome.UNSURE, words, sentences)
    if all(change.reality == Reality.TOO_FEW for change in found):
        return Top(Outcome.SAME, f"Too few rounds to compare with {since}: ask for three or more.", [])
    usual = sum(change.reality == Reality.USUAL for change in found)
    more = f" {usual} differ, but no more than runs of this do by themselves." if usual else ""
    return Top(Outcome.SAME, f"No difference shown since {since}, in {len(found)} figures compared.{more}", [])


def _worst_first(change: Change) -> tuple[bool, float]:
    return change.is_better, -abs(change.ratio.value - 1)


def _count(real: Sequence[Change]) -> str:
    return "A real change" if len(real) == 1 else f"{len(real)} real changes"


def of_failure(words: str) -> Top:
    return Top(Outcome.FAILED, f"There are no figures: {words}", [])


def of_invalid(reasons: Sequence[str]) -> Top:
    return Top(Outcome.INVALID, f"Do not believe these figures: {' '.join(reasons)}", [])
