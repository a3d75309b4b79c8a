#!/usr/bin/env python3
"""Run the checks of the project and print the time of each; `make test` and `make lint` call this script.

    check.py          everything
    check.py lint     only the checks that need no servers
    check.py NAME...  single checks by name (see CHECKS)

Checks that leave CPUs idle run two at a time; their output is printed at their end. The first failure ends the run; its
output is printed before. No test is repeated.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.postgres import Postgres  # noqa: E402
from tests.support.process_cleanup import end_left, ended_with  # noqa: E402
from tests.support.redis import Redis  # noqa: E402

PYTHON = sys.executable
BIN = Path(PYTHON).parent
# The tests wait for servers about half of their time.
PROCESSES = str(max(2, os.cpu_count() or 2) + 2)
RUST_PROFILE = ("--profile", "checks")  # native/Cargo.toml: quicker to link than "release", and with assertions
RUST_THREADS = str(3 * max(2, os.cpu_count() or 2))  # gallop's tests wait four fifths of their time
# Processes that checks start are found by this path, which they have in their environment; no such file exists. A
# check that runs next to another is a separate process and gets the path from its parent.
MARK_VARIABLE = "PADDOCK_TESTS_MARK"
MARK = Path(os.environ.get(MARK_VARIABLE) or Path(tempfile.gettempdir()) / f"paddock-checks-{os.getpid()}-run")

# Some images disable compiled Python files: each of hundreds of processes would compile the panel and the
# tests again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class Failed(Exception):
    pass


def run(*argv: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> None:
    code = code_of(*argv, cwd=cwd, env=env)
    if code != 0:
        raise Failed(f"{' '.join(argv)} ended with {code}")


def code_of(*argv: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> int:
    return subprocess.run(argv, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL).returncode


@contextmanager
def home() -> Iterator[Path]:
    """Create a data folder for one check, and delete it afterwards.
    It is world-readable, because servers under test drop their privileges.
    """
    path = Path(tempfile.mkdtemp(prefix="paddock-test-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def style() -> None:
    run(str(BIN / "ruff"), "check", ".")
    run(str(BIN / "ruff"), "format", "--check", ".")


def language() -> None:
    run(PYTHON, "scripts/language.py", "lint")


def templates() -> None:
    run(PYTHON, "scripts/templates.py")


def shell() -> None:
    for script in sorted([*ROOT.glob("scripts/*.sh"), *ROOT.glob("docker/*.sh"), ROOT / ".ci" / "run"]):
        run("bash" if script.name == "run" else "sh", "-n", str(script))


def types() -> None:
    run(str(BIN / "mypy"), "panel", "agents")


def migrations() -> None:
    with home() as folder:
        run(PYTHON, "manage.py", "makemigrations", "--check", "--dry-run", env={"PADDOCK_HOME": str(folder)})


def production_settings() -> None:
    with home() as folder:
        env = {"PADDOCK_HOME": str(folder), "PADDOCK_HTTPS": "1", "PADDOCK_ALLOWED_HOSTS": "panel.example"}
        run(PYTHON, "manage.py", "check", "--deploy", "--fail-level", "WARNING", env=env)


def compose() -> None:
    run("docker-compose", "-f", "docker-compose.yml", "config", "--quiet")


def rust_style() -> None:
    run("cargo", "fmt", "--check", cwd=ROOT / "native")
    run(
        "cargo",
        "clippy",
        *RUST_PROFILE,
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
        cwd=ROOT / "native",
    )


def licences() -> None:
    run(PYTHON, "scripts/licences.py")


def rust_tests() -> None:
    env = {"RUST_TEST_THREADS": RUST_THREADS}
    run("cargo", "test", *RUST_PROFILE, "--locked", "--workspace", "--quiet", cwd=ROOT / "native", env=env)


def pytest(*arguments: str, env: Mapping[str, str], cwd: Path = ROOT) -> None:
    """Run pytest with these arguments, with a separate data folder and cache."""
    with home() as folder:
        slowest = ["--durations", "25", "--durations-min", "5"]
        argv = [PYTHON, "-m", "pytest", "-q", *slowest, "-o", f"cache_dir={folder / 'cache'}", *arguments]
        run(*argv, cwd=cwd, env={**env, "PADDOCK_HOME": str(folder / "panel")})


def sqlite_tests() -> None:
    # Tests of both the database and real servers run in cluster mode only, and in `make nightly`.
    pytest("-n", PROCESSES, "--dist", "loadscope", "--part=embedded", "--ignore=tests/suites/browser", env={})


def postgres_tests() -> None:
    with home() as folder, Postgres(folder / "postgres") as postgres, Redis(folder / "redis") as redis:
        env = {"PADDOCK_DATABASE_URL": postgres.url, "PADDOCK_REDIS_URL": redis.url}
        # Those that know no database ran already.
        pytest("-n", PROCESSES, "--dist", "loadscope", "--part=cluster", "--ignore=tests/suites/browser", env=env)


def browser_tests() -> None:
    pytest("-n", PROCESSES, "--dist", "loadscope", "tests/suites/browser", env={})


LINT: dict[str, Callable[[], None]] = {
    "style": style,
    "language": language,
    "templates": templates,
    "shell": shell,
    "types": types,
    "migrations": migrations,
    "production-settings": production_settings,
    "compose": compose,
    "rust-style": rust_style,
    "licences": licences,
}
CHECKS: dict[str, Callable[[], None]] = {
    **LINT,
    "rust-tests": rust_tests,
    "sqlite-tests": sqlite_tests,
    "postgres-tests": postgres_tests,
    "browser-tests": browser_tests,
}

# Checks that run two at a time, in this order: gallop's tests mostly wait, and the quick checks keep one CPU
# busy at most. The other tests keep both busy: two such checks took longer at the same time than one after the other.
TOGETHER = (("rust-tests", *LINT),)


def main(names: list[str]) -> int:
    if names == ["lint"]:
        names = list(LINT)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"unknown check {', '.join(unknown)}; there are: {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    if MARK_VARIABLE in os.environ:  # a check that runs next to another: the first process ends what it started
        return carry_out(names)
    os.environ[MARK_VARIABLE] = str(MARK)
    with ended_with(MARK):
        return carry_out(names or list(CHECKS))


def beside_each_other(names: list[str], times: list[tuple[str, float]]) -> bool:
    """Run checks two at a time and print the output of each at its end; return whether all passed.
    After a failure no further check starts. Appends name and seconds of each passed check to `times`.
    """

    def alone(name: str) -> tuple[subprocess.CompletedProcess[str], float]:
        began = time.monotonic()
        argv = [PYTHON, str(Path(__file__).resolve()), name]
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done, time.monotonic() - began

    with ThreadPoolExecutor(2) as pool:
        running = {pool.submit(alone, name): name for name in names}
        try:
            for future in as_completed(running):
                done, seconds = future.result()
                print(done.stdout, end="", flush=True)
                if done.returncode != 0:
                    pool.shutdown(wait=False, cancel_futures=True)
                    return False
                times.append((running[future], seconds))
        except BaseException:  # on a signal: the threads would wait for the processes that they started
            end_left(MARK)
            raise
    return True


def in_turn(names: list[str]) -> Iterator[list[str]]:
    """Yield the checks in groups, in the order in which they run: a group of TOGETHER, or a single check."""
    left = list(names)
    while left:
        group = next((group for group in TOGETHER if left[0] in group), (left[0],))
        chosen = [name for name in group if name in left]
        left = [name for name in left if name not in chosen]
        yield chosen


def one_alone(name: str, times: list[tuple[str, float]]) -> bool:
    """Run one check with its output shown directly; return whether it passed.
    Appends its name and seconds to `times`.
    """
    print(f"==> {name}", flush=True)
    began = time.monotonic()
    try:
        CHECKS[name]()
    except Failed as failure:
        print(f"==> {name} failed: {failure}", file=sys.stderr, flush=True)
        return False
    times.append((name, time.monotonic() - began))
    return True


def carry_out(names: list[str]) -> int:
    times: list[tuple[str, float]] = []
    for group in in_turn(names):
        if len(group) == 1:
            passed = one_alone(group[0], times)
        else:
            print(f"==> beside each other: {', '.join(group)}", flush=True)
            passed = beside_each_other(group, times)
        if not passed:
            return 1
    for name, seconds in times:
        print(f"    {name:<22}{seconds:7.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
