"""`python -m tests.suites.attack.paths --sites N --requests M --seed S [--only ENGINE]`: one line for each engine,
then their sum.

Ends with 1 when a canary was read or a worker was root's.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.attack.paths")
    parser.add_argument("--sites", type=int, default=200)
    parser.add_argument("--requests", type=int, default=20, help="to each site")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="an engine's name; may be given several times")
    options = parser.parse_args(given)
    os.environ.setdefault("PADDOCK_HOME", tempfile.mkdtemp(prefix="paddock-attack-"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")
    import django

    django.setup()
    from tests.suites.attack.paths.runner import Result, run

    def told(result: Result) -> None:
        for found in result.read[:10]:
            print(f"CANARY {found}")
        print(result.line(), flush=True)

    results = run(options.sites, options.requests, options.seed, only=options.only, makes_database=True, told=told)
    asked, read = sum(result.requests for result in results), sum(len(result.read) for result in results)
    print(f"paths: {len(results)} engines, {asked} requests, {read} canaries read")
    return 1 if any(result.read or 0 in result.workers for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
