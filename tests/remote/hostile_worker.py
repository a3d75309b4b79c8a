"""One request to a host, in a process whose memory is looked at: JSON in the first argument, JSON out."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from panel.remote.errors import RemoteError
from panel.remote.pool import Pool
from panel.remote.target import Target


def memory(name: str) -> float:
    """VmRSS or VmHWM in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(name)


def main(given: dict[str, Any]) -> dict[str, Any]:
    """How the request ended: "error", "message"; "seconds"; MiB "before", "peak" and "after"."""
    wait = given.pop("timeout")
    slow = given.pop("slow")
    pool = Pool()
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    began = time.monotonic()
    found: dict[str, Any] = {"error": "", "message": ""}
    try:
        with pool.session(Target(**given)) as agent:
            pause = threading.Event()
            agent.call("hello", {}, lambda _: pause.wait(slow) and None, timeout=wait)
    except RemoteError as error:
        found = {"error": type(error).__name__, "message": error.message}
    seconds = time.monotonic() - began
    pool.close()
    time.sleep(0.5)
    return {**found, "seconds": seconds, "before": before, "peak": memory("VmHWM"), "after": memory("VmRSS")}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))) + "\n")
