"""Words of the panel's pages about sites, hosts and web servers, from their HTML. Pure.

`None` is a page that makes no claim, such as "Not observed".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from html.parser import HTMLParser

SITE_WORDS = {
    "Live": True,
    "Deployed, failing": False,
    "Deployed, not observed": None,
    "Drift": None,
    "Drift, failing": False,
}
HOST_WORDS = {"Ready": True, "Unreachable": False, "Not observed": None}
SERVER_WORDS = {"Running": True, "Stopped": False, "Not observed": None}
HEALTH_WORDS = {"Responding": True, "Failing": False, "Not observed": None}
CALM = "Nothing needs your attention."
CERTIFICATE_WORDS = {
    "Every TLS address that the panel reaches presented the deployed certificate.": True,
    "Visitors do not get the deployed certificate.": False,
}
# Labels of alerts, with the kind of their subjects; every one says that something is wrong.
ALERTS = {"Failing": "site", "Unreachable": "host", "Stopped": "server", "Wrong certificate": "certificate"}
# The same in the API: field, kind of the subject, claims by value.
API_HEALTH: Mapping[str, bool | None] = {"answering": True, "failing": False, "": None}
API_HOST: Mapping[str, bool | None] = {"ready": True, "unreachable": False}
API_SERVER: Mapping[str, bool | None] = {"running": True, "stopped": False, "unknown": None}
_STATUS = re.compile(r'class="status tone-[\w-]+">(?:(?!<span>).)*?<span>([^<]*)</span>', re.DOTALL)


class _Rows(HTMLParser):
    """Text of the cells of every table row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._is_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")
            self._is_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self._is_cell = False

    def handle_data(self, data: str) -> None:
        if self._is_cell and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def rows(html: str) -> list[list[str]]:
    """Cells of every table row, with single spaces."""
    parser = _Rows()
    parser.feed(html)
    return [[" ".join(cell.split()) for cell in row] for row in parser.rows]


def listed(html: str, names: set[str], known: dict[str, bool | None]) -> Iterator[tuple[str, bool | None]]:
    """Name and claim of each row whose cells begin with one of these names; ValueError for an unknown word."""
    for row in rows(html):
        place = next((index for index, cell in enumerate(row) if cell.split(" ")[0] in names), None)
        if place is None:
            continue
        yield row[place].split(" ")[0], claim(row[place + 1], known)


def claim(text: str, known: dict[str, bool | None]) -> bool | None:
    """Claim of a status cell, which may have badges after the word; ValueError for an unknown word."""
    word = next((word for word in sorted(known, key=len, reverse=True) if text.startswith(word)), None)
    if word is None:
        raise ValueError(f"unknown word of a page: {text!r}")
    return known[word]


def first_status(html: str, after: str, known: Mapping[str, bool | None]) -> bool | None:
    """Claim of the first status that follows the text `after`; None without one; ValueError for an unknown word."""
    begins = html.find(after)
    found = _STATUS.search(html, begins) if begins >= 0 else None
    return claim(unescape(found[1]).strip(), known) if found else None


def server(html: str) -> bool | None:
    """Claim about the first web server on a host's page."""
    cells = [cell for row in rows(html) for cell in row]
    return next((SERVER_WORDS[cell] for cell in cells if cell in SERVER_WORDS), None)


def disk_is_full(html: str, mount: str) -> bool:
    """A host's page warns about the disk at `mount`; the hosts of a run see each other's disks."""
    return re.search(rf"<strong>\s*Disk almost full[^<]*</strong>[^<]*{re.escape(mount)}\b", html) is not None


def described(html: str, label: str, known: Mapping[str, bool | None]) -> bool | None:
    """Claim of the status beside a label in a list of details; None without one."""
    found = re.search(rf"<dt>\s*{re.escape(label)}\s*</dt>\s*<dd>(.*?)</dd>", html, re.DOTALL)
    return first_status(found[1], "", known) if found else None


def figure(html: str, label: str) -> int | None:
    """First number of a figure on the dashboard."""
    found = re.search(rf">\s*{re.escape(label)}\s*</a>\s*</dt>\s*<dd>\s*([\d,]+)", html)
    return int(found[1].replace(",", "")) if found else None


def certificate(html: str) -> bool | None:
    """Claim of a site's TLS page about the certificate that visitors get."""
    text = " ".join(html.split())
    return next((value for words, value in CERTIFICATE_WORDS.items() if words in text), None)


def alerts(html: str) -> Iterator[tuple[str, str]]:
    """Label and title of each alert on the dashboard."""
    for part in html.partition('<ul class="alerts">')[2].partition("</ul>")[0].split("<li>")[1:]:
        label, title = _STATUS.search(part), re.search(r"<strong>([^<]*)</strong>", part)
        if label and title:
            yield unescape(label[1]).strip(), unescape(title[1]).strip()


def wrong_subjects(alerts_: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Subjects of which alerts, given by label and title, say that something is wrong."""
    for label, title in alerts_:
        if label in ALERTS:
            # A web server is named after its host: "nginx on truth-1".
            yield f"{ALERTS[label]}:{title.rpartition(' on ')[2]}"
