"""Words of the panel's pages about sites, hosts and web servers, from their HTML. Pure.

`None` is a page that makes no claim, such as "Not observed".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

SITE_WORDS = {
    "Live": True,
    "Deployed, failing": False,
    "Deployed, not observed": None,
    "Drift": None,
    "Drift, failing": False,
}
HOST_WORDS = {"Ready": True, "Unreachable": False}
SERVER_WORDS = {"Running": True, "Stopped": False, "Not observed": None}
CALM = "Nothing needs your attention."


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


def server(html: str) -> bool | None:
    """Claim about the first web server on a host's page."""
    cells = [cell for row in rows(html) for cell in row]
    return next((SERVER_WORDS[cell] for cell in cells if cell in SERVER_WORDS), None)


def disk_is_full(html: str, mount: str) -> bool:
    """A host's page warns about the disk at `mount`; the hosts of a run see each other's disks."""
    return re.search(rf"<strong>\s*Disk almost full[^<]*</strong>[^<]*{re.escape(mount)}\b", html) is not None
