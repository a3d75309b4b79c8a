"""Compare words of pages with an observer's record of the same things, and with each other. Pure.

A word is right if it holds now or held at any time within the last `limit_s` seconds: a page needs time to follow a
change. Two pages of one panel must agree at the same moment. Times are seconds of one clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

RIGHT, WRONG, SILENT = "right", "wrong", "silent"


@dataclass(frozen=True)
class Word:
    """A page's word about a subject ("site:shop"); `value` is None where the page made no claim. The value of a subject
    "count:site" is the number of sites of which the page says that all is well.
    """

    at: float
    subject: str
    value: bool | int | None
    page: str = ""


@dataclass(frozen=True)
class Contradiction:
    """`other` contradicts what `word` and a later reading of the same page say."""

    word: Word
    other: Word


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


def count_verdict(word: Word, histories: Mapping[str, History], limit_s: float) -> str:
    """WRONG if a page counted more as well than were well at any time within the limit.

    A smaller number is right: it claims nothing about those that the panel did not observe.
    """
    kind = word.subject.removeprefix("count:") + ":"
    own = [history for subject, history in histories.items() if subject.startswith(kind)]
    most = sum(True in history.between(word.at - limit_s, word.at) for history in own)
    return RIGHT if word.value is not None and word.value <= most else WRONG


READ = "read:"  # subject of a word that each reading of a page adds, whatever the page said


def contradictions(words: Sequence[Word]) -> list[Contradiction]:
    """Pairs of pages that contradicted each other: one page said the same before and after the other said otherwise.

    `words` were read one after the other, so the first page said the same all the time. Of a count this is not certain,
    because one site may fail while another is well again: the other page must have said its number twice, too.
    """
    found: list[Contradiction] = []
    readings = [word for word in words if word.subject == READ]
    following = {(before.page, before.at): after.at for before, after in pairs_of_pages(readings, claims=False)}
    for subject, own in by_subject(words).items():
        # A page that names a site only while it fails claims nothing in the readings between.
        pairs = [pair for pair in pairs_of_pages(own) if following.get((pair[0].page, pair[0].at)) == pair[1].at]
        said_twice = {before for before, _after in pairs}
        for first, second in pairs:
            between = (word for word in own if first.at < word.at < second.at and word.page != first.page)
            claims = (word for word in between if word.value is not None and word.value != first.value)
            certain = (word for word in claims if not subject.startswith("count:") or word in said_twice)
            found += [Contradiction(first, word) for word in certain]
    return found


def pairs_of_pages(words: Sequence[Word], *, claims: bool = True) -> Iterable[tuple[Word, Word]]:
    """Two words of one page that follow each other and make the same claim, or none if not `claims`."""
    last: dict[str, Word] = {}
    for word in words:
        before = last.get(word.page)
        if before is not None and before.value == word.value and (before.value is not None) == claims:
            yield before, word
        last[word.page] = word


def by_subject(words: Iterable[Word]) -> dict[str, list[Word]]:
    found: dict[str, list[Word]] = {}
    for word in words:
        found.setdefault(word.subject, []).append(word)
    return found


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
    """Result for the words of one page about the subjects of one kind."""

    page: str
    kind: str
    words: int = 0
    silent: int = 0
    wrong: int = 0
    delays: list[float] = field(default_factory=list)
    examples: list[Word] = field(default_factory=list)


def lines(words: Iterable[Word], histories: Mapping[str, History], limits: Mapping[str, float]) -> list[Line]:
    """One line for each page and kind (the part of the subject before the colon); `limits` are in seconds, by kind."""
    found: dict[tuple[str, str], Line] = {}
    for subject, all_words in sorted(by_subject(word for word in words if word.subject != READ).items()):
        kind = subject.partition(":")[0]
        history = histories.get(subject, History())
        for page in sorted({word.page for word in all_words}):
            own = [word for word in all_words if word.page == page]
            line = found.setdefault((page, kind), Line(page, kind))
            verdicts = [_verdict(word, histories, limits[kind]) for word in own]
            line.words += len(own)
            line.silent += verdicts.count(SILENT)
            line.wrong += verdicts.count(WRONG)
            line.delays += delays(own, history, lasting_s=limits[kind])
            line.examples += [word for word, found_ in zip(own, verdicts, strict=True) if found_ == WRONG][:3]
    return [found[key] for key in sorted(found)]


def _verdict(word: Word, histories: Mapping[str, History], limit_s: float) -> str:
    if word.subject.startswith("count:"):
        return count_verdict(word, histories, limit_s)
    return verdict(word, histories.get(word.subject, History()), limit_s)


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile; nan without values."""
    if not values:
        return float("nan")
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]
