"""`python -m tests.suites.perf [NAME...]`: run benchmarks and print their tables. Without names: all, in this order."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from tests.suites.perf.account import own_group
from tests.support.process_cleanup import ended_with

NAMES = ("render", "lists", "deploy", "push", "rollout", "waves", "beside", "renewals", "links", "loadtools")


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    home = Path(tempfile.mkdtemp(prefix="paddock-perf-"))
    home.chmod(0o755)
    os.environ["PADDOCK_HOME"] = str(home / "panel")
    os.environ["PADDOCK_STATIC_MANIFEST"] = "0"
    os.environ.setdefault("PADDOCK_LOG_LEVEL", "WARNING")
    print(
        f"{os.cpu_count()} CPUs, {platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}"
    )
    try:
        with own_group() as counted, ended_with(home):
            print(counted)
            for name in names or NAMES:
                print(f"\n== {name}", flush=True)
                importlib.import_module(f"tests.suites.perf.{name}").main(home / name)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
