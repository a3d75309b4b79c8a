"""Reads the panel's pages and its API once a second and keeps their words."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

from tests.suites.truth import words
from tests.suites.truth.panel import TruthPanel
from tests.suites.truth.scene import TruthHost, TruthSite
from tests.suites.truth.score import READ, Word

EVERY_S = 1.0
Claims = Iterable[tuple[str, bool | int | None]]


class Reader:
    """`words` in order of time, `latest` by subject; `missing` of `asked` pages did not respond. One thread reads one
    page after the other, which score.contradictions relies on.
    """

    def __init__(self, panel: TruthPanel, hosts: list[TruthHost]) -> None:
        self.words: list[Word] = []
        self.latest: dict[str, bool | int | None] = {}
        self.unknown: set[str] = set()
        self.asked = self.missing = 0
        self._panel, self._hosts = panel, hosts
        self._host_names = {host.name for host in hosts}
        self._site_names = {site.name for host in hosts for site in host.sites}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        for number in count():
            began = time.time()
            host = self._hosts[number % len(self._hosts)]
            self._read(host, host.sites[number // len(self._hosts) % len(host.sites)])
            if self._done.wait(max(0.0, began + EVERY_S - time.time())):
                return

    def _read(self, host: TruthHost, site: TruthSite) -> None:
        self._page("list of sites", "/sites/", self._sites)
        self._page("list of hosts", "/hosts/", self._list_of_hosts)
        self._page("dashboard", "/", self._dashboard)
        self._page("host page", f"/hosts/{host.name}/", lambda html: self._host(html, host))
        self._page("site page", f"/sites/{site.name}/", lambda html: _site(html, site))
        if site.kind == "tls":
            subject = f"certificate:{site.name}"
            self._page("TLS page of a site", f"/sites/{site.name}/tls/", lambda h: [(subject, words.certificate(h))])
        self._api(
            "sites", lambda row: ("site", row["name"], (row["observed_by_host"] or {})["state"]), words.API_HEALTH
        )
        self._api("hosts", lambda row: ("host", row["name"], row["status"]), words.API_HOST)
        self._api(
            "web-servers",
            lambda row: ("server", row["host"], row["state"]),
            words.API_SERVER,
        )
        self._api_alerts()

    def _page(self, page: str, path: str, read: Callable[[str], Claims]) -> None:
        self.asked += 1
        html = self._panel.page(path)
        if html is None:
            self.missing += 1
            return
        self._keep(page, lambda: read(html))

    def _keep(self, page: str, read: Callable[[], Claims]) -> None:
        at = time.time()
        self.words.append(Word(at, READ, None, page))
        try:
            for subject, value in read():
                self.words.append(Word(at, subject, value, page))
                self.latest[subject] = value
        except ValueError as error:
            self.unknown.add(f"{page}: {error}")

    def _sites(self, html: str) -> Claims:
        listed = list(words.listed(html, self._site_names, words.SITE_WORDS))
        yield from ((f"site:{name}", value) for name, value in listed)
        yield "count:site", sum(value is True for _name, value in listed)
        if any(value is False for _name, value in listed):
            yield "calm:", False

    def _list_of_hosts(self, html: str) -> Claims:
        listed = list(words.listed(html, self._host_names, words.HOST_WORDS))
        yield from ((f"host:{name}", value) for name, value in listed)
        yield "count:host", sum(value is True for _name, value in listed)
        if any(value is False for _name, value in listed):
            yield "calm:", False

    def _dashboard(self, html: str) -> Claims:
        yield "count:site", words.figure(html, "Live sites")
        yield "count:host", words.figure(html, "Hosts ready")
        yield from ((subject, False) for subject in words.wrong_subjects(words.alerts(html)))
        if words.CALM in html:
            yield "calm:", True

    def _host(self, html: str, host: TruthHost) -> Claims:
        yield f"host:{host.name}", words.first_status(html, 'id="host-live"', words.HOST_WORDS)
        yield f"server:{host.name}", words.server(html)
        yield f"disk:{host.name}", words.disk_is_full(html, str(host.disk.path))
        listed = words.listed(html.partition('id="sites"')[2], self._site_names, words.SITE_WORDS)
        yield from ((f"site:{name}", value) for name, value in listed)

    def _api(
        self, path: str, read: Callable[[dict[str, Any]], tuple[str, str, str]], known: Mapping[str, bool | None]
    ) -> None:
        rows = self._rows(f"{path}/")
        self._keep(f"API: {path}", lambda: [_claim(*read(row), known) for row in rows])

    def _api_alerts(self) -> None:
        rows = self._rows("attention/")
        alerts = [(row["label"], row["title"]) for row in rows]
        self._keep("API: alerts", lambda: [(subject, False) for subject in words.wrong_subjects(alerts)])

    def _rows(self, path: str) -> list[dict[str, Any]]:
        self.asked += 1
        status, body = self._panel.call("GET", path)
        if status != 200:
            self.missing += 1
            return []
        found: list[dict[str, Any]] = body["results"] if isinstance(body, dict) and "results" in body else body
        return found


def _site(html: str, site: TruthSite) -> Claims:
    yield f"site:{site.name}", words.first_status(html, "<h1>", words.SITE_WORDS)
    yield f"health:{site.name}", words.described(html, "Health seen by the host", words.HEALTH_WORDS)
    yield f"reach:{site.name}", words.described(html, "Health seen by the panel", words.HEALTH_WORDS)


def _claim(kind: str, name: str, word: str, known: Mapping[str, bool | None]) -> tuple[str, bool | None]:
    if word not in known:
        raise ValueError(f"unknown word of the API: {word!r}")
    return f"{kind}:{name}", known[word]
