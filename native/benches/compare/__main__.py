"""Measures and writes RESULTS.md.

    make compare                       everything, about 20 minutes
    make compare CASES=http1,php       some cases; the others keep what was measured before

Peers that are not installed are left out; a newer nginx is named by COMPARE_NGINX=/path/to/nginx, another
gallop by COMPARE_GALLOP, OpenLiteSpeed's folder by PADDOCK_OPENLITESPEED. A peer that fails in a case is left out
of it, with the reason; when gallop fails, the call ends.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
from pathlib import Path

from compare import memory, report, rounds, system
from compare.cases import CASES
from compare.servers import VERSION_ARGUMENTS, version

HERE = Path(__file__).resolve().parent.parent
RECORD = HERE / "results.json"
RESULTS = HERE / "RESULTS.md"
NOTES = HERE / "NOTES.md"
MEMORY_CASES = {
    "million": ("http3", memory.million),
    "idle": ("http1", memory.idle),
    "blocks": ("blocks", memory.many_blocks),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="names, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    known = [case.name for case in CASES] + list(MEMORY_CASES)
    wanted = options.cases.split(",") if options.cases else known
    if unknown := set(wanted) - set(known):
        print(f"no case is called {', '.join(sorted(unknown))}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    if missing := [tool for tool in ("taskset", "wrk", "h2load", "openssl") if shutil.which(tool) is None]:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
        return 2
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"cases": {}, "versions": {}}
    record |= {"machine": system.machine(), "date": datetime.date.today().isoformat()}
    with rounds.world() as made:
        for server in made.servers("http1"):
            text = "" if server.name == "limit" else version(server.binary, *VERSION_ARGUMENTS.get(server.name, ["-v"]))
            record["versions"][server.name] = text.removeprefix("Server version: ").strip() or "of this repository"
        for name in wanted:
            if name in MEMORY_CASES:
                needs, measure = MEMORY_CASES[name]
                count = 1 if name == "million" else min(3, options.rounds)
                result, failures = rounds.run_each(made, needs, measure, rounds=count)
            else:
                case = next(case for case in CASES if case.name == name)
                result, failures = rounds.run_case(made, case, options.rounds)
            record["cases"][name] = result
            record.setdefault("failures", {})[name] = failures
            # Written after each case: what is measured is not lost when a later one fails.
            RECORD.write_text(json.dumps(record, indent=1, sort_keys=False) + "\n")
            RESULTS.write_text(report.render(record, NOTES.read_text() if NOTES.exists() else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
