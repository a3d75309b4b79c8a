"""Run benchmark suites on this machine's real servers and print their tables.

`python -m tests.suites.benchmark_suites [SUITE...]`

Short presets of all three unless told otherwise. `--full` runs the full ones; `--cases`, `--only` and `--servers`
choose a part, which its results say; `--program nginx=/path` compares another build. `--keep FOLDER` writes what people
would download: the page as it is shown, JSON and CSV. How long it takes is printed first.

`--load-from namespaces` makes two machines of namespaces here, one for the load and one for the servers, with the link
between them. `--on root@192.0.2.8 --load-from root@192.0.2.7` takes real hosts, by SSH with a key, known already.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.suites.benchmark_suites.locations import Places
    from tests.suites.benchmark_suites.suite_runner import Wanted

SLUGS = ("http3-2019", "small-static-files", "php-application-2020")
NAMESPACES = "namespaces"
SSH = Path("~/.ssh").expanduser()


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _program(text: str) -> tuple[str, str]:
    engine, _, path = text.partition("=")
    if engine not in ("nginx", "apache", "native", "openlitespeed") or not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not nginx=, apache=, native= or openlitespeed= and a program's path"
        )
    return engine, path


def _asked(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.benchmark_suites", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SLUGS))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--cases", type=_names, default=(), help="published cases: small-multiplexed,file-10mb,...")
    parser.add_argument("--only", type=_names, default=(), metavar="PROTOCOLS", help="h3,h2,h1")
    parser.add_argument("--servers", type=_names, default=(), help="set-ups: nginx,gallop,apache,...")
    parser.add_argument("--application", default="", help="of php-application-2020: shop, wordpress")
    parser.add_argument("--program", type=_program, action="append", default=[], help="nginx=/path/to/another/nginx")
    parser.add_argument("--load-from", default="", metavar="WHERE", help=f"{NAMESPACES}, or [USER@]ADDRESS[:PORT]")
    parser.add_argument("--on", default="", metavar="WHERE", help="[USER@]ADDRESS[:PORT] of the host of the servers")
    parser.add_argument("--identity", type=Path, default=SSH / "id_ed25519", help="the private key that opens them")
    parser.add_argument("--known-hosts", type=Path, default=SSH / "known_hosts", help="the keys they are known by")
    parser.add_argument("--keep", type=Path, help="a folder for page, JSON and CSV")
    asked = parser.parse_args(arguments)
    for slug in asked.suites:
        if slug not in SLUGS:
            parser.error(f"there is no suite {slug}; there are: {', '.join(SLUGS)}")
    if asked.load_from not in ("", NAMESPACES) and not asked.on:
        parser.error("a load from another host needs --on, the host of the servers")
    if asked.on and asked.load_from == NAMESPACES:
        parser.error(f"--on is a host of its own; --load-from {NAMESPACES} makes both here")
    if asked.on and asked.program:
        parser.error("--program is of this machine; with --on, the servers are those that the host has")
    return asked


def main(arguments: list[str]) -> int:
    asked = _asked(arguments)
    home = Path(tempfile.mkdtemp(prefix="paddock-suites-"))
    home.chmod(0o755)
    os.environ |= {"PADDOCK_HOME": str(home / "panel"), "PADDOCK_STATIC_MANIFEST": "0", "TMPDIR": str(home)}
    os.environ.setdefault("PADDOCK_LOG_LEVEL", "WARNING")
    os.environ["DJANGO_SETTINGS_MODULE"] = "panel.settings"
    try:
        return _run(asked, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _wanted(asked: argparse.Namespace, load: str) -> list[Wanted]:
    from panel.benchmarks.suites.choosing import Choice
    from tests.suites.benchmark_suites.suite_runner import Wanted

    choice = Choice(asked.cases, asked.only, asked.application, load_from=load)
    preset = "full" if asked.full else "short"
    return [Wanted(slug, preset, asked.servers, choice, asked.keep) for slug in asked.suites or SLUGS]


def _places(asked: argparse.Namespace, home: Path) -> AbstractContextManager[Places]:
    from tests.suites.benchmark_suites import locations

    if asked.on:
        keys = locations.Keys(asked.identity, asked.known_hosts)
        load = locations.Address.of(asked.load_from) if asked.load_from else None
        return locations.between_hosts(locations.Address.of(asked.on), load, keys)
    programs = dict(asked.program)
    return locations.between_namespaces(home, programs) if asked.load_from else locations.here(programs)


def _run(asked: argparse.Namespace, home: Path) -> int:
    """0 when every case ended with figures, valid or not."""
    import django

    django.setup()
    from django.core.management import call_command

    from panel.core.errors import ApplicationError
    from panel.remote import pool
    from tests.suites.benchmark_suites import suite_runner

    call_command("migrate", verbosity=0)
    actor = suite_runner.administrator()
    failed = 0
    try:
        with _places(asked, home) as where:
            try:
                for wanted in _wanted(asked, where.load):
                    failed += suite_runner.run_and_print(actor, where.servers, wanted)
            finally:
                pool.close()
    except ApplicationError as error:
        sys.exit(error.message)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
