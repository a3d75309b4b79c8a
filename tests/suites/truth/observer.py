"""An observer that is not part of the panel: asks every site, host and web server once a second, as visitors do."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.suites.truth.scene import TruthHost, TruthSite
from tests.suites.truth.score import History

EVERY_S = 1.0
TIMEOUT_S = 3.0
FULL_SHARE = 0.97


class Observer:
    """`histories` of "site:NAME", "host:NAME", "server:NAME", "disk:NAME", "certificate:NAME" and "calm:" (nothing of
    these is wrong). "health:NAME" and "reach:NAME" are the same as "site:NAME": two observers of the panel look at it.
    """

    def __init__(self, hosts: list[TruthHost], pems: dict[str, tuple[str, str]]) -> None:
        self.histories: dict[str, History] = defaultdict(History)
        self._checks: dict[str, Callable[[], bool | None]] = {}
        for host in hosts:
            self._checks[f"host:{host.name}"] = lambda host=host: _has_sshd(host)
            self._checks[f"server:{host.name}"] = lambda host=host: is_running(host)
            self._checks[f"disk:{host.name}"] = lambda host=host: _is_full(host)
            for site in host.sites:
                pem = pems.get(site.name, ("",))[0]
                self._checks[f"site:{site.name}"] = lambda site=site, pem=pem: is_responding(site, pem)
                if pem:
                    self._checks[f"certificate:{site.name}"] = lambda site=site, pem=pem: presents(site, pem)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(len(self._checks)) as threads:
            while not self._done.is_set():
                began = time.time()
                seen = dict(zip(self._checks, threads.map(lambda check: check(), self._checks.values()), strict=True))
                for subject, value in seen.items():
                    self._add(subject, began, value)
                well = all(value is None or value != subject.startswith("disk:") for subject, value in seen.items())
                self.histories["calm:"].add(began, well)
                self._done.wait(max(0.0, began + EVERY_S - time.time()))

    def _add(self, subject: str, at: float, value: bool | None) -> None:
        """Record a value; None, which could not be observed now, leaves the former value."""
        if value is None:
            return
        self.histories[subject].add(at, value)
        if subject.startswith("site:"):
            for kind in ("health:", "reach:"):
                self.histories[kind + subject.removeprefix("site:")].add(at, value)


def is_responding(site: TruthSite, pem: str) -> bool:
    """The site's page has status 200, over HTTPS with a certificate that is valid now if the site has one."""
    raw = None
    try:
        raw = socket.create_connection(("127.0.0.1", site.port), timeout=TIMEOUT_S)
        if pem:
            raw = ssl.create_default_context(cadata=pem).wrap_socket(raw, server_hostname=site.domain)
        raw.sendall(f"GET /index.html HTTP/1.1\r\nHost: {site.domain}\r\nConnection: close\r\n\r\n".encode())
        response = http.client.HTTPResponse(raw)
        response.begin()
        return response.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        if raw is not None:
            raw.close()


def presents(site: TruthSite, pem: str) -> bool | None:
    """The site presents this certificate; None if its port does not respond to a handshake."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection(("127.0.0.1", site.port), timeout=TIMEOUT_S) as raw,
            context.wrap_socket(raw, server_hostname=site.domain) as connection,
        ):
            return connection.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(pem)
    except OSError:
        return None


def _has_sshd(host: TruthHost) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", host.sshd.port), timeout=TIMEOUT_S) as connection:
            connection.settimeout(TIMEOUT_S)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def is_running(host: TruthHost) -> bool:
    pid = host.server.pid
    try:
        os.kill(pid or 0, 0)
    except OSError:
        return False
    return pid is not None


def _is_full(host: TruthHost) -> bool:
    info = os.statvfs(host.disk.path)
    return 1 - info.f_bavail / info.f_blocks >= FULL_SHARE
