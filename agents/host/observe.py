"""Operation `observe`: send requests to sites of this host and report the responses, without any change on the host."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agents.host import probe, request
from agents.host.errors import Refusal
from agents.host.operations import Emit

MOST = 2000
AT_ONCE = 8
FOR_S = 60.0


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Send the requests: {"probes": [Probe]} -> {"rows": [observation]} (agents/host/probe.py), in the same order. At
    the time limit, the last requests have no row.
    """
    probes = args.get("probes", [])
    if not isinstance(probes, list) or len(probes) > MOST:
        raise Refusal("invalid", "probes is a list of at most %d" % MOST)
    checks = [request.check_probe(item) for item in probes]
    until = time.monotonic() + FOR_S

    def ask(check: dict[str, Any]) -> dict[str, Any] | None:
        return None if cancelled.is_set() or time.monotonic() > until else probe.observe(check)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        rows = list(pool.map(ask, checks))
    return {"rows": list(itertools.takewhile(lambda row: row is not None, rows))}
