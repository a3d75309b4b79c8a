"""Edit-to-verified on one host: a site is changed, planned, confirmed and carried out over a real sshd and nginx.

The limit is the job alone on the same host: writing the file, nginx -t, reload, asking until the new one answers.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from tests.suites.perf.fleet import fleet, site_text
from tests.suites.perf.panel import job_alone, panel

ROUNDS = 15
WARM_UP = 3


def main(folder: Path) -> None:
    rounds, limit = [], []
    with fleet(folder / "hosts", 1) as hosts, panel(folder / "panel", hosts) as controller:
        for number in range(WARM_UP + ROUNDS):
            mark = f"v{number}"
            measured = controller.push(mark, count=1)
            text = site_text(hosts[0], mark)
            began = time.perf_counter()
            job_alone(hosts[0], mark, text)
            if number >= WARM_UP:
                rounds.append(measured)
                limit.append(time.perf_counter() - began)
    ms = {name: statistics.median(row[name] for row in rounds) * 1000 for name in rounds[0]}
    total = ms["edit"] + ms["wall"]
    print(f"edit-to-verified, warm, median of {ROUNDS}, milliseconds:")
    for name in ("edit", "plan", "confirm", "run"):
        print(f"  {name:<28}{ms[name]:>8.1f}")
    print(f"  {'total':<28}{total:>8.1f}")
    print(f"  {'of it: waiting for the agent':<28}{ms['agent']:>8.1f}")
    print(f"  {'of it: bookkeeping':<28}{total - ms['agent']:>8.1f}")
    alone = statistics.median(limit) * 1000
    print(f"  {'limit: the job alone':<28}{alone:>8.1f}   the whole is {total / alone:.1f} times that")
