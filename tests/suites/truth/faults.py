"""Random faults of hosts, sites and the panel, each ended again after a while."""

from __future__ import annotations

import datetime as dt
import os
import random
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.suites.truth.observer import is_running
from tests.suites.truth.panel import TruthPanel
from tests.suites.truth.scene import TruthHost, TruthSite
from tests.support.expiring_certificates import certificate

AT_ONCE = 2
SHORTEST_S, LONGEST_S = 10.0, 170.0
PAUSE_S = (3.0, 15.0)
# Both files of a certificate in that order, as nginx and as Apache name them.
CERTIFICATE_FILE = r"(?:ssl_certificate(?:_key)?|SSLCertificate(?:Key)?File) \"?([^\"\s;]+)"


@dataclass(frozen=True)
class Fault:
    """`places` are what no second fault may touch at the same time."""

    name: str
    places: tuple[str, ...]
    begin: Callable[[], object]
    end: Callable[[], object]


def of_host(host: TruthHost) -> list[Fault]:
    server, link, app = (f"{host.name} server",), (f"{host.name} link",), (f"{host.name} app",)
    return [
        Fault(f"stop the web server of {host.name}", server, host.server.stop, lambda: _start_server(host)),
        Fault(f"kill the web server of {host.name}", server, lambda: _kill_server(host), lambda: _start_server(host)),
        Fault(f"cut the link of {host.name}", link, host.cut, host.sshd.start),
        Fault(f"hang the link of {host.name}", link, lambda: host.hang(True), lambda: host.hang(False)),
        Fault(f"fill the disk of {host.name}", (f"{host.name} disk",), lambda: host.disk.fill(0), host.disk.empty),
        Fault(f"kill the application of {host.name}", app, host.app.stop, host.app.start),
        Fault(f"hang the application of {host.name}", app, lambda: host.app.pause(True), lambda: host.app.pause(False)),
        *[fault for site in host.sites for fault in of_site(site)],
    ]


def of_site(site: TruthSite) -> list[Fault]:
    # A file cannot be written while the disk is full.
    places = (f"{site.host.name} server", f"{site.host.name} disk")
    edit = (lambda: _edit(site, "# by hand\n"), lambda: _edit(site, ""))
    found = [Fault(f"edit the file of {site.name}", places, *edit)]
    if site.kind == "files":
        page = site.root / "index.html"
        hidden = page.with_suffix(".away")
        rename = (lambda: page.rename(hidden), lambda: hidden.rename(page))
        found.append(Fault(f"remove the page of {site.name}", (f"{site.name} files",), *rename))
    if site.kind == "tls":
        found.append(_expiry(site, places))
    return found


def of_panel(panel: TruthPanel) -> list[Fault]:
    kills = [
        Fault(f"kill the {name} process", ("panel",), lambda number=number: panel.kill_one(number), lambda: None)
        for number, name in enumerate(("web", "worker", "scheduler"))
    ]
    return [
        *kills,
        Fault("stop Redis", ("panel",), panel.redis.stop, panel.redis.start),
        Fault("stop PostgreSQL", ("panel",), panel.postgres.process.stop, panel.postgres.process.start),
    ]


def _kill_server(host: TruthHost) -> None:
    """The master with its workers, which would go on serving."""
    if host.server.pid is not None:
        os.killpg(os.getpgid(host.server.pid), signal.SIGKILL)


def _start_server(host: TruthHost) -> None:
    """A deployment may have started it meanwhile."""
    if not is_running(host):
        host.server.start()


def _edit(site: TruthSite, line: str) -> None:
    """Put a comment at the front of the live file, or take it away."""
    if site.config.exists():
        text = site.config.read_text().removeprefix("# by hand\n")
        site.config.write_text(line + text)


def _expiry(site: TruthSite, places: tuple[str, ...]) -> Fault:
    saved: dict[Path, str] = {}

    def begin() -> None:
        text = site.config.read_text()
        paths = [Path(name) for name in re.findall(CERTIFICATE_FILE, text)]
        for path, pem in zip(paths, certificate(site.domain, dt.timedelta(days=-1)), strict=True):
            saved[path] = path.read_text()
            path.write_text(pem)
        site.host.server.reload()

    def end() -> None:
        for path, pem in saved.items():
            path.write_text(pem)
        saved.clear()
        site.host.server.reload()

    return Fault(f"let the certificate of {site.name} expire", places, begin, end)


class Faults:
    """Runs faults in threads of its own until the context ends; then every fault is ended."""

    def __init__(self, choices: list[Fault], seed: int, say: Callable[[str], None]) -> None:
        self._choices, self._chance, self._say = choices, random.Random(seed), say
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._threads = [threading.Thread(target=self._run) for _ in range(AT_ONCE)]
        self.count = 0

    def __enter__(self) -> Faults:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._done.is_set():
            fault, lasts, pause = self._next()
            self._say(f"{fault.name}, for {lasts:.0f} s")
            try:
                fault.begin()
                self._done.wait(lasts)
            finally:
                fault.end()
                self._say(f"ended: {fault.name}")
                with self._lock:
                    self._busy.difference_update(fault.places)
            self._done.wait(pause)

    def _next(self) -> tuple[Fault, float, float]:
        with self._lock:
            free = [fault for fault in self._choices if self._busy.isdisjoint(fault.places)]
            fault = self._chance.choice(free)
            self._busy.update(fault.places)
            self.count += 1
            longest = 40.0 if fault.places == ("panel",) else LONGEST_S
            return fault, self._chance.uniform(SHORTEST_S, longest), self._chance.uniform(*PAUSE_S)
