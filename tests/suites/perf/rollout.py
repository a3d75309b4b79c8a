"""A rollout to many sshd + nginx hosts whose second wave answers 5xx: seconds until every host is back.

An observer asks every host ten times a second for its version, beside the panel's own record.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from tests.suites.perf.fleet import FleetHost, fleet
from tests.suites.perf.panel import DOMAIN, panel
from tests.support.http_client import ask

SIZE = int(os.environ.get("PADDOCK_PERF_ROLLOUT_HOSTS", "50"))
SOAK_S = 3
AIM_S = 30.0  # from the gate's failure until every host answers as before


class Observer:
    """Times at which each host's answer changed, in seconds since 1970."""

    def __init__(self, hosts: list[FleetHost]) -> None:
        self.seen: dict[str, list[tuple[float, str]]] = {host.name: [] for host in hosts}
        self._hosts = hosts
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.1):
            for host in self._hosts:
                answer, known = ask(host.http_port, "/version", host=DOMAIN).text, self.seen[host.name]
                if not known or known[-1][1] != answer:
                    known.append((time.time(), answer))

    def answers(self, name: str) -> list[str]:
        return [answer for _at, answer in self.seen[name]]


def _files(host: FleetHost) -> dict[str, bytes]:
    folder = host.nginx.root / "conf.d"
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def main(folder: Path) -> None:
    with fleet(folder / "hosts", SIZE) as hosts, panel(folder / "panel", hosts) as controller:
        controller.push("old", count=SIZE)
        before = {host.name: _files(host) for host in hosts}
        began = time.time()
        with Observer(hosts) as observer:
            found = controller.rollout("new", soak_s=SOAK_S)
            time.sleep(1.0)
        after = {host.name: _files(host) for host in hosts}
    assert found["status"] == "undone", found
    first, second, third = found["waves"]
    assert all(observer.answers(name) == ["old", "new", "old"] for name in [*first, *second]), observer.seen
    assert all(observer.answers(name) == ["old"] for name in third), "a host of the third wave was changed"
    assert before == after, "files differ from those before the rollout"
    back = max(observer.seen[name][-1][0] for name in [*first, *second]) - found["failed_at"]
    print(f"rollout to {SIZE} hosts in waves of {len(first)}, {len(second)}, {len(third)}; the second wave fails")
    print(
        f"  {'start to failure of the gate':<46}{found['failed_at'] - began:>8.1f} s ({SOAK_S} s to observe each wave)"
    )
    print(f"  {'failure until every host answers as before':<46}{back:>8.1f} s (aim {AIM_S:.0f} s)")
    print(f"  {'failure until the rollout has ended':<46}{found['ended_at'] - found['failed_at']:>8.1f} s")
    print(f"  {'peak memory of the panel':<46}{found['peak_bytes'] / 1e6:>8.0f} MB")
    print(f"  third wave: {len(third)} hosts, no file changed, no other answer seen")
    print(f"  evidence: {found['error']}")
