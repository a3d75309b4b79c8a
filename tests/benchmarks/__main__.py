"""`python -m tests.benchmarks [SUITE...]`: run suites on this machine's real servers and print their tables.

Short presets of all three unless told otherwise. `--full` runs the full ones; `--cases`, `--only` and `--servers`
choose a part, which its results say; `--program nginx=/path` compares another build. `--keep FOLDER` writes what people
would download: the page as it is shown, JSON and CSV. How long it takes is printed first.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.benchmarks.suites import Wanted

SLUGS = ("http3-2019", "small-static-files", "php-application-2020")


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _program(text: str) -> tuple[str, str]:
    engine, _, path = text.partition("=")
    if engine not in ("nginx", "apache", "native", "openlitespeed") or not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not nginx=, apache=, native= or openlitespeed= and a program's path"
        )
    return engine, path


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SLUGS))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--cases", type=_names, default=(), help="published cases: small-multiplexed,file-10mb,...")
    parser.add_argument("--only", type=_names, default=(), metavar="PROTOCOLS", help="h3,h2,h1")
    parser.add_argument("--servers", type=_names, default=(), help="set-ups: nginx,gallop,apache,...")
    parser.add_argument("--application", default="", help="of php-application-2020: shop, wordpress")
    parser.add_argument("--program", type=_program, action="append", default=[], help="nginx=/path/to/another/nginx")
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
        return _run(asked)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _wanted(asked: argparse.Namespace) -> list[Wanted]:
    from panel.benchmarks.suites.choosing import Choice
    from tests.benchmarks.suites import Wanted

    choice = Choice(asked.cases, asked.only, asked.application)
    preset = "full" if asked.full else "short"
    return [Wanted(slug, preset, asked.servers, choice, asked.keep) for slug in asked.suites or SLUGS]


def _run(asked: argparse.Namespace) -> int:
    """0 when every case ended with figures, valid or not."""
    import django

    django.setup()
    from django.core.management import call_command

    from panel.core.errors import ApplicationError
    from panel.remote import pool
    from tests.benchmarks import suites

    call_command("migrate", verbosity=0)
    actor, host = suites.administrator(), suites.local_host()
    suites.add_installs(host, dict(asked.program))
    failed = 0
    try:
        for wanted in _wanted(asked):
            failed += suites.run_and_print(actor, host, wanted)
    except ApplicationError as error:
        sys.exit(error.message)
    finally:
        pool.close()
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
