"""`python -m tests.suites.renewals [--kills 50]`: many renewals in one night; see README.md."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.suites.renewals.observer import Observer
from tests.suites.renewals.scene import Scene, scene
from tests.suites.renewals.workers import Kills, Memory, SecondWorker, running
from tests.support.whole_panel import WholePanel

ROWS = "tests.suites.renewals.rows"
DONE_WITHIN_S = 3600.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="renewals")
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--sites", type=int, default=30, help="sites of each host")
    parser.add_argument("--kills", type=int, default=0, help="ends of panel processes; nights go on until then")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="paddock-renewals-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with scene(folder / "hosts", given.hosts, given.sites) as found:
            return run(folder, found, given.kills, given.seed)


def run(folder: Path, found: Scene, kills: int, seed: int) -> int:
    """Print what became of the renewals; 1 if one failed, was ordered twice, or a site had no valid certificate."""
    print(f"seed {seed}: {len(found.hosts)} hosts, {len(found.sites)} certificates, two workers", flush=True)
    panel = WholePanel(folder / "panel", ROWS, found.given())
    with running(panel, folder) as second:
        for host in found.hosts:
            deploy(panel, [site.name for site in host.sites])
        before = {host.name: host.reloads() for host in found.hosts}
        with (
            Observer(found.sites, found.https_port, found.authority.root_pem()) as observer,
            Memory(panel, second) as memory,
        ):
            nights, killed = _nights(panel, second, kills, seed)
        for site in found.sites:  # at the end, each one more time
            observer.look(site)
        state = asked(panel, "state")
    reloads = Counter(host.reloads() - before[host.name] for host in found.hosts)
    orders, wanted = found.authority.orders(), nights * len(found.sites)
    old = [site.name for site in found.sites if len(observer.leaves[site.name]) < 2]
    print(f"{nights} nights, {killed} processes of the panel ended; orders by status: {state['orders']}")
    print(f"orders at the authority: {orders} for {wanted} renewals; {state['seconds']:.0f} s from first to last")
    print(f"deployments: {state['deployments']}; reloads, by number of hosts: {dict(reloads)}", end="; ")
    print(f"memory at most {memory.most / 1e6:.0f} MB")
    print(f"handshakes by the observer: {observer.seen}, without a valid certificate: {len(observer.failures)}")
    for at, name, words in observer.failures[:10]:
        print(f"  {time.strftime('%H:%M:%S', time.localtime(at))} {name}: {words}")
    print(f"sites that still present the old certificate: {old[:10]}; problems: {state['problems']}")
    return int(bool(observer.failures or old or state["problems"] or not wanted <= orders <= wanted + killed))


def _nights(panel: WholePanel, second: SecondWorker, kills: int, seed: int) -> tuple[int, int]:
    """Nights in which every certificate was renewed, and ended processes."""
    if not kills:
        night(panel)
        return 1, 0
    nights = 0
    with Kills(panel, second, seed) as ended:
        while ended.count < kills:
            night(panel)
            nights += 1
    return nights, ended.count


def night(panel: WholePanel) -> None:
    """Make every certificate due, and wait until no order is under way."""
    began = time.monotonic()
    asked(panel, "due")
    while time.monotonic() < began + DONE_WITHIN_S:
        time.sleep(2.0)
        state = asked(panel, "state")
        if not state["open"]:
            print(f"a night of {time.monotonic() - began:.0f} s: {state['orders']}", flush=True)
            return
    raise TimeoutError(f"renewals did not end within {DONE_WITHIN_S:.0f} s: {state['waiting']}")


def asked(panel: WholePanel, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(panel.run(["-m", ROWS, name]))
    return found


def deploy(panel: WholePanel, sites: list[str]) -> None:
    """Deploy these sites of one host as one plan."""
    status, body = panel.call("POST", "deployments/", {"sites": sites, "confirm": True})
    assert status == 202, body
    uuids = [item["uuid"] for item in body["deployments"]]
    for _ in range(120):
        rows = [panel.call("GET", f"deployments/{uuid}/")[1] for uuid in uuids]
        if all(row["status"] == "succeeded" for row in rows):
            return
        assert not any(row["status"] in ("failed", "rolled_back") for row in rows), rows
        time.sleep(1.0)
    raise TimeoutError(f"the first deployment did not end: {rows}")


if __name__ == "__main__":
    sys.exit(main())
