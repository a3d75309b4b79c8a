"""`python -m tests.benchmarks [SUITE...]`: run suites on this machine's real servers and print their tables.

Short presets of all three unless told otherwise. `--full` runs the full ones; `--keep FOLDER` writes what people would
download: the page as it is shown, JSON and CSV.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

SLUGS = ("http3-2019", "small-static-files", "php-application-2020")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SLUGS))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for page, JSON and CSV")
    asked = parser.parse_args(arguments)
    for slug in asked.suites:
        if slug not in SLUGS:
            parser.error(f"there is no suite {slug}; there are: {', '.join(SLUGS)}")
    home = Path(tempfile.mkdtemp(prefix="paddock-suites-"))
    home.chmod(0o755)
    os.environ |= {"PADDOCK_HOME": str(home / "panel"), "PADDOCK_STATIC_MANIFEST": "0", "TMPDIR": str(home)}
    os.environ.setdefault("PADDOCK_LOG_LEVEL", "WARNING")
    os.environ["DJANGO_SETTINGS_MODULE"] = "panel.settings"
    try:
        return _run(asked.suites or list(SLUGS), "full" if asked.full else "short", asked.keep)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(slugs: list[str], preset: str, keep: Path | None) -> int:
    """0 when every case ended with figures, valid or not."""
    import django

    django.setup()
    from django.core.management import call_command

    from panel.remote import pool
    from tests.benchmarks import suites

    call_command("migrate", verbosity=0)
    actor, host = suites.administrator(), suites.local_host()
    suites.add_installs(host)
    failed = 0
    try:
        for slug in slugs:
            failed += suites.run_and_print(actor, host, slug, preset, keep)
    finally:
        pool.close()
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
