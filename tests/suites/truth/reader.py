"""Reads the panel's pages once a second and keeps their words."""

from __future__ import annotations

import threading
import time
from itertools import count

from tests.suites.truth import words
from tests.suites.truth.panel import TruthPanel
from tests.suites.truth.scene import TruthHost
from tests.suites.truth.score import Word

EVERY_S = 1.0


class Reader:
    """`words` in order of time, `latest` by subject; `missing` of `asked` pages did not respond."""

    def __init__(self, panel: TruthPanel, hosts: list[TruthHost]) -> None:
        self.words: list[Word] = []
        self.latest: dict[str, bool | None] = {}
        self.unknown: set[str] = set()
        self.asked = self.missing = 0
        self._mounts = {host.name: str(host.disk.path) for host in hosts}
        self._panel, self._hosts = panel, [host.name for host in hosts]
        self._sites = {site.name for host in hosts for site in host.sites}
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
            self._read(self._hosts[number % len(self._hosts)])
            if self._done.wait(max(0.0, began + EVERY_S - time.time())):
                return

    def _read(self, host: str) -> None:
        if html := self._page("/sites/"):
            self._listed(html, "site", self._sites, words.SITE_WORDS)
        if html := self._page("/hosts/"):
            self._listed(html, "host", set(self._hosts), words.HOST_WORDS)
        if html := self._page(f"/hosts/{host}/"):
            self._keep(f"server:{host}", words.server(html))
            self._keep(f"disk:{host}", words.disk_is_full(html, self._mounts[host]))
        if (html := self._page("/")) and words.CALM in html:
            self._keep("calm:", True)

    def _page(self, path: str) -> str | None:
        self.asked += 1
        html = self._panel.page(path)
        self.missing += html is None
        return html

    def _listed(self, html: str, kind: str, names: set[str], known: dict[str, bool | None]) -> None:
        try:
            for name, value in words.listed(html, names, known):
                self._keep(f"{kind}:{name}", value)
        except ValueError as error:
            self.unknown.add(str(error))

    def _keep(self, subject: str, value: bool | None) -> None:
        self.words.append(Word(time.time(), subject, value))
        self.latest[subject] = value
