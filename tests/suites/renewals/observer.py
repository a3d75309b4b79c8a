"""An observer that is not part of the panel: asks every site for its certificate, as a browser does, in turn."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import defaultdict

from tests.suites.renewals.scene import RenewalSite

TIMEOUT_S = 10.0


class Observer:
    """`seen` counts the handshakes, `failures` holds those without a valid certificate, `leaves` the certificates of
    each site in the order in which they appeared.
    """

    def __init__(self, sites: list[RenewalSite], port: int, root_pem: str, *, pause_s: float = 0.02) -> None:
        self._sites, self._port, self._pause_s = sites, port, pause_s
        self._contexts = {site.name: ssl.create_default_context(cadata=root_pem + site.certificate) for site in sites}
        self.seen = 0
        self.failures: list[tuple[float, str, str]] = []
        self.leaves: dict[str, list[bytes]] = defaultdict(list)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            for site in self._sites:
                self.look(site)
                if self._done.wait(self._pause_s):
                    return

    def look(self, site: RenewalSite) -> None:
        self.seen += 1
        try:
            leaf = self._leaf(site)
        except OSError as error:
            self.failures.append((time.time(), site.name, str(error)))
            return
        if not self.leaves[site.name] or self.leaves[site.name][-1] != leaf:
            self.leaves[site.name].append(leaf)

    def _leaf(self, site: RenewalSite) -> bytes:
        """The presented certificate in DER. OSError if it is not valid for the site, or there is no handshake."""
        with (
            socket.create_connection((site.host.address, self._port), timeout=TIMEOUT_S) as raw,
            self._contexts[site.name].wrap_socket(raw, server_hostname=site.domain) as wrapped,
        ):
            return wrapped.getpeercert(binary_form=True) or b""
