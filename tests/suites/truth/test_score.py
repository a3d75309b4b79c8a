"""The comparison of words with observations, and the reading of words from pages."""

from __future__ import annotations

import pytest

from tests.suites.truth import words
from tests.suites.truth.score import (
    READ,
    RIGHT,
    SILENT,
    WRONG,
    History,
    Word,
    contradictions,
    count_verdict,
    delays,
    lines,
    percentile,
    verdict,
)


def history(*changes: tuple[float, bool]) -> History:
    found = History()
    for at, value in changes:
        found.add(at, value)
    return found


FAILED_AT_100 = history((0, True), (100, False), (300, True))


@pytest.mark.parametrize(
    ("at", "value", "expected"),
    [
        (50, True, RIGHT),
        (50, False, WRONG),
        (159, True, RIGHT),  # the change is 59 s old
        (161, True, WRONG),
        (161, False, RIGHT),
        (161, None, SILENT),
        (359, False, RIGHT),
        (361, False, WRONG),
    ],
)
def test_word_is_wrong_only_after_the_limit(at: float, value: bool | None, expected: str) -> None:
    assert verdict(Word(at, "site:shop", value), FAILED_AT_100, 60) == expected


def test_short_change_makes_no_word_wrong_in_either_direction() -> None:
    seen = history((0, True), (100, False), (110, True))
    assert verdict(Word(120, "site:shop", False), seen, 60) == RIGHT
    assert verdict(Word(120, "site:shop", True), seen, 60) == RIGHT
    assert verdict(Word(171, "site:shop", False), seen, 60) == WRONG


def test_delay_is_time_until_first_agreeing_word_and_infinite_without_one() -> None:
    own = [Word(at, "site:shop", at >= 340 or at < 120) for at in range(0, 400, 10)]
    assert delays(own, FAILED_AT_100, lasting_s=60) == [20, 40]
    late = [Word(at, "site:shop", at >= 340) for at in range(0, 400, 10)]
    assert delays([word for word in late if word.at != 390], FAILED_AT_100, lasting_s=60) == [0, 40]


def test_changes_that_a_page_never_claims_have_no_delay() -> None:
    silent = [Word(at, "site:shop", None) for at in range(0, 400, 10)]
    assert delays(silent, FAILED_AT_100, lasting_s=60) == []
    calm = [Word(at, "calm:", True) for at in range(0, 400, 10) if at < 100 or at > 310]
    assert delays(calm, FAILED_AT_100, lasting_s=60) == [20]


def test_lines_count_words_by_kind() -> None:
    own = [Word(170, "site:shop", True), Word(170, "site:blog", False), Word(170, "host:web-1", None)]
    site, host = sorted(
        lines(own, {"site:shop": FAILED_AT_100, "site:blog": FAILED_AT_100}, {"site": 60, "host": 60}),
        key=lambda line: line.kind,
        reverse=True,
    )
    assert (site.words, site.wrong, site.silent) == (2, 1, 0) and site.examples == [own[0]]
    assert (host.words, host.wrong, host.silent) == (1, 0, 1)


def test_percentile_is_the_nearest_rank() -> None:
    assert [percentile([5, 1, 3], share) for share in (0.0, 0.5, 1.0)] == [1, 3, 5]


TABLE = """<table><tr><th>Site<th>Status</tr>
<tr><td><input></td><td><a>shop</a> <span>production</span></td><td><span>{}</span> <b>changed</b></td></tr></table>"""


@pytest.mark.parametrize(("word", "value"), list(words.SITE_WORDS.items()))
def test_site_words_are_read_from_rows(word: str, value: bool | None) -> None:
    html = TABLE.format(word)
    assert list(words.listed(html, {"shop"}, words.SITE_WORDS)) == [("shop", value)]
    assert not list(words.listed(html, {"sho"}, words.SITE_WORDS))


def test_unknown_word_is_an_error() -> None:
    with pytest.raises(ValueError, match="Splendid"):
        list(words.listed(TABLE.format("Splendid"), {"shop"}, words.SITE_WORDS))


def test_count_is_wrong_only_if_it_is_too_large() -> None:
    seen = {"site:shop": FAILED_AT_100, "site:blog": history((0, True)), "host:web-1": history((0, True))}
    numbers = {1: RIGHT, 2: WRONG, 0: RIGHT}
    assert {n: count_verdict(Word(170, "count:site", n), seen, 60) for n in numbers} == numbers
    assert count_verdict(Word(150, "count:site", 2), seen, 60) == RIGHT
    (line,) = lines([Word(170, "count:site", 2, "dashboard")], seen, {"count": 60})
    assert (line.page, line.kind, line.wrong) == ("dashboard", "count", 1)


def test_lines_tell_pages_apart() -> None:
    own = [Word(170, "site:shop", True, "list"), Word(170, "site:shop", False, "page")]
    assert [(line.page, line.wrong) for line in lines(own, {"site:shop": FAILED_AT_100}, {"site": 60})] == [
        ("list", 1),
        ("page", 0),
    ]


def said(*values: tuple[str, bool | int | str | None], subject: str = "site:shop") -> list[Word]:
    """One reading of a page after the other; "" is a reading in which the page did not name the subject."""
    found: list[Word] = []
    for at, (page, value) in enumerate(values):
        found.append(Word(at, READ, None, page))
        found += [] if isinstance(value, str) else [Word(at, subject, value, page)]
    return found


@pytest.mark.parametrize(
    ("words_", "count"),
    [
        (said(("list", True), ("page", False), ("list", True)), 1),
        (said(("list", True), ("page", True), ("list", True)), 0),
        (said(("list", True), ("page", False), ("list", False)), 0),  # changed in between
        (said(("list", True), ("page", None), ("list", True)), 0),
        (said(("list", True), ("page", False)), 0),
        # alerts name a site only while it fails
        (said(("alerts", False), ("alerts", ""), ("list", True), ("alerts", False)), 0),
    ],
)
def test_pages_contradict_each_other_if_one_said_the_same_before_and_after(words_: list[Word], count: int) -> None:
    assert len(contradictions(words_)) == count


def test_counts_contradict_each_other_only_if_both_were_said_twice() -> None:
    """One site may fail while another is well again."""

    changed = said(("list", 3), ("dashboard", 2), ("list", 3), ("dashboard", 3), subject="count:site")
    assert contradictions(changed) == []
    lasting = said(("list", 3), ("dashboard", 2), ("list", 3), ("dashboard", 2), subject="count:site")
    assert [(found.word.page, found.other.page) for found in contradictions(lasting)] == [("list", "dashboard")]


STATUS = '<span class="status tone-ok"><svg><path/></svg><span>{}</span></span>'


def test_other_words_are_read_from_pages() -> None:
    page = f"<h1>shop</h1> {STATUS.format('Live')}"
    assert words.first_status(page, "<h1>", words.SITE_WORDS) is True
    assert words.first_status("<h1>shop</h1>", "<h1>", words.SITE_WORDS) is None
    details = f"<dt>Health</dt> <dd>{STATUS.format('Failing')}</dd>"
    assert words.described(details, "Health", words.HEALTH_WORDS) is False
    assert words.described(details, "Other", words.HEALTH_WORDS) is None
    figure = '<dt><a href="/sites/">Live sites</a></dt> <dd>1,234<small> / 2,000</small></dd>'
    assert words.figure(figure, "Live sites") == 1234 and words.figure(figure, "Hosts ready") is None
    assert words.certificate("<p>Visitors do not get\n the deployed certificate.") is False
    assert words.certificate("<p>nothing") is None


def test_alerts_are_read_as_subjects_that_are_wrong() -> None:
    rows = [("Failing", "shop"), ("Stopped", "nginx on web-1"), ("Drift", "blog"), ("Unreachable", "web-2")]
    items = "".join(f"<li>{STATUS.format(label)}<strong>{title}</strong></li>" for label, title in rows)
    found = list(words.alerts(f'<ul class="alerts">{items}</ul><li>{STATUS.format("Failing")}<strong>x</strong></li>'))
    assert found == rows
    assert list(words.wrong_subjects(found)) == ["site:shop", "server:web-1", "host:web-2"]
