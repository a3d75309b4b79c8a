"""Headline of a report: the changes since the previous run, and their significance. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from panel.benchmarks.runs import change_texts
from panel.benchmarks.runs.run_changes import Change, Reality
from panel.reports.choices import Outcome


@dataclass(frozen=True)
class Top:
    outcome: Outcome
    headline: str
    changes: list[str]


def of_changes(found: Sequence[Change], previous_run: str) -> Top:
    """Return the outcome, the headline and the sentences of a report, for a list of changes. `previous_run` names the
    previous run, "" if there is none.
    """
    if not previous_run:
        return Top(Outcome.FIRST, "This is the first report, so there is no earlier result to compare with.", [])
    if not found:
        return Top(
            Outcome.FIRST, f"This run and {previous_run} have no measurement in common, so they cannot be compared.", []
        )
    real = [change for change in found if change.reality == Reality.REAL]
    likely = [change for change in found if change.reality == Reality.LIKELY]
    sentences = [change_texts.sentence(change) for change in sorted(real, key=_worst_first)]
    sentences += [change_texts.sentence(change) for change in sorted(likely, key=_worst_first)]
    if real:
        worse = [change for change in real if not change.is_better]
        outcome = Outcome.WORSE if worse else Outcome.BETTER
        return Top(outcome, f"{_count(real)} since {previous_run}. {sentences[0]}", sentences)
    if likely:
        words = f"Possible change since {previous_run}, but not significant yet. {sentences[0]}"
        return Top(Outcome.UNSURE, words, sentences)
    if all(change.reality == Reality.TOO_FEW for change in found):
        return Top(
            Outcome.SAME, f"Too few rounds to compare this run with {previous_run}. Use three or more rounds.", []
        )
    usual = sum(change.reality == Reality.USUAL for change in found)
    more = f" {usual} of these figures differ, but within the normal variation between runs." if usual else ""
    return Top(
        Outcome.SAME, f"No significant difference since {previous_run} in {len(found)} compared figures.{more}", []
    )


def _worst_first(change: Change) -> tuple[bool, float]:
    return change.is_better, -abs(change.ratio.value - 1)


def _count(real: Sequence[Change]) -> str:
    return "A significant change" if len(real) == 1 else f"{len(real)} significant changes"


def of_failure(words: str) -> Top:
    return Top(Outcome.FAILED, f"No figures: {words}", [])


def of_invalid(reasons: Sequence[str]) -> Top:
    return Top(Outcome.INVALID, f"These figures are not reliable: {' '.join(reasons)}", [])
