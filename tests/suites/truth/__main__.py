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
from tests.suites.truth.score import Line, Word, contradictions, lines, percentile
from tests.support.expiring_certificates import certificate
from tests.support.waiting import eventually

LIMIT_S = 60.0
SHOWN = 30  # contradictions
KINDS = ("site", "health", "reach", "host", "server", "disk", "certificate", "count", "calm")
LIMITS = dict.fromkeys(KINDS, LIMIT_S)


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
    look = "from panel.certificates import watching; print(watching.look())"
    seen = panel.run(["manage.py", "shell", "-c", look]).split()[-1]
    assert int(seen) == len(pems), seen
    observer = ended.enter_context(Observer(fleet, pems))
    words = ended.enter_context(reader.Reader(panel, fleet))
    assert eventually(lambda: all(words.latest.get(f"site:{site.name}") for site in sites), timeout_s=150.0)
    choices = [fault for host in fleet for fault in faults.of_host(host)] + faults.of_panel(panel)
    with Faults(choices, seed, say) as chosen, admin:
        time.sleep(lasts_s)
        chosen.stop()
    time.sleep(LIMIT_S + 30)  # the words after the last fault
    found = lines(words.words, observer.histories, LIMITS)
    contradicting = contradictions(words.words)
    print(f"\n{chosen.count} faults; deployments: {dict(admin.results)}")
    print(f"pages that did not respond: {words.missing} of {words.asked}; unknown words: {sorted(words.unknown)}")
    for line in found:
        print(table_row(line))
    print(f"pages that contradicted each other at the same moment: {len(contradicting)}")
    for pair in contradicting[:SHOWN]:
        print(f"    {described(pair.word)}, but {described(pair.other)}")
    for false in admin.false:
        print(f"false status of a deployment: {false}")
    wrong = any(line.wrong for line in found)
    return int(wrong or bool(admin.false) or bool(words.unknown) or bool(contradicting))


def described(word: Word) -> str:
    return f"{word.page}: {word.subject} {word.value} at {clock(word.at)}"


def table_row(line: Line) -> str:
    late = [f"{percentile(line.delays, share):.0f}" for share in (0.5, 0.9, 1.0)]
    examples = "".join(f"\n    wrong: {described(word)}" for word in line.examples)
    return (
        f"{line.page:<20} {line.kind:<11} {line.words:>6} words, "
        f"{100 * line.wrong / line.words:6.2f} % wrong after {LIMIT_S:.0f} s, "
        f"{100 * line.silent / line.words:5.1f} % without a claim; {len(line.delays)} changes, "
        f"delay median {late[0]} s, p90 {late[1]} s, most {late[2]} s{examples}"
    )


def say(text: str) -> None:
    print(f"{clock(time.time())} {text}", flush=True)


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


if __name__ == "__main__":
    sys.exit(main())
