"""`python -m tests.suites.truth [--minutes 30] [--seed N]`: the panel's words under random faults; see README.md."""

from __future__ import annotations

import argparse
import datetime as dt
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.suites.truth import faults, reader
from tests.suites.truth.admin import Admin
from tests.suites.truth.faults import Faults
from tests.suites.truth.observer import Observer
from tests.suites.truth.panel import TruthPanel
from tests.suites.truth.scene import hosts
from tests.suites.truth.score import Line, lines, percentile
from tests.support.expiring_certificates import certificate
from tests.support.waiting import eventually

LIMIT_S = 60.0
LIMITS = dict.fromkeys(("site", "host", "server", "disk", "calm"), LIMIT_S)


def main() -> int:
    parser = argparse.ArgumentParser(prog="truth")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paddock-truth-") as folder, ExitStack() as ended:
        Path(folder).chmod(0o755)
        return run(Path(folder), given.minutes * 60, given.hosts, given.seed, ended)


def run(folder: Path, lasts_s: float, count: int, seed: int, ended: ExitStack) -> int:
    """Print the table of one run; 1 if a word was wrong for longer than its limit, or a deployment's status was."""
    print(f"seed {seed}, {lasts_s / 60:.0f} minutes, {count} hosts with 3 sites each", flush=True)
    fleet = ended.enter_context(hosts(folder / "hosts", count))
    sites = [site for host in fleet for site in host.sites]
    pems = {site.name: certificate(site.domain, dt.timedelta(days=60)) for site in sites if site.kind == "tls"}
    panel = TruthPanel(folder / "panel", fleet, pems)
    ended.callback(panel.stop)
    panel.start()
    admin = Admin(panel, sites, seed, say)
    for site in sites:
        admin.deploy(site)
    assert admin.results == {"succeeded": len(sites)}, admin.results
    observer = ended.enter_context(Observer(fleet, pems))
    words = ended.enter_context(reader.Reader(panel, fleet))
    assert eventually(lambda: all(words.latest.get(f"site:{site.name}") for site in sites), timeout_s=150.0)
    choices = [fault for host in fleet for fault in faults.of_host(host)] + faults.of_panel(panel)
    with Faults(choices, seed, say) as chosen, admin:
        time.sleep(lasts_s)
        chosen.stop()
    time.sleep(LIMIT_S + 30)  # the words after the last fault
    found = lines(words.words, observer.histories, LIMITS)
    print(f"\n{chosen.count} faults; deployments: {dict(admin.results)}")
    print(f"pages that did not respond: {words.missing} of {words.asked}; unknown words: {sorted(words.unknown)}")
    for line in found:
        print(table_row(line))
    for false in admin.false:
        print(f"false status of a deployment: {false}")
    return int(any(line.wrong for line in found) or bool(admin.false) or bool(words.unknown))


def table_row(line: Line) -> str:
    late = [f"{percentile(line.delays, share):.0f}" for share in (0.5, 0.9, 1.0)]
    examples = "".join(f"\n    wrong: {word.subject} {word.value} at {clock(word.at)}" for word in line.examples)
    return (
        f"{line.kind:<7} {line.words:>6} words, {100 * line.wrong / line.words:6.2f} % wrong after {LIMIT_S:.0f} s, "
        f"{100 * line.silent / line.words:5.1f} % without a claim; {len(line.delays)} changes, "
        f"delay median {late[0]} s, p90 {late[1]} s, most {late[2]} s{examples}"
    )


def say(text: str) -> None:
    print(f"{clock(time.time())} {text}", flush=True)


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


if __name__ == "__main__":
    sys.exit(main())
