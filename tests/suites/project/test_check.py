"""`make test` repeats a failed test once, alone, and names it; a test that fails twice fails the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.process_cleanup import end_left, naming
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
CALL = """
import pathlib, sys
sys.path.insert(0, "scripts")
import check
check.pytest("test_made.py", env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, cwd=pathlib.Path(sys.argv[1]))
"""
FAILS_ONCE = """
from pathlib import Path
def test_one():
    before = Path(__file__).with_suffix(".ran")
    was_there = before.exists()
    before.touch()
    assert was_there
"""


def checked(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_made.py").write_text(text)
    argv = [sys.executable, "-c", CALL, str(folder)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_check_fails_when_a_test_fails_that_would_pass_alone(tmp_path: Path) -> None:
    done = checked(tmp_path, FAILS_ONCE)
    assert done.returncode != 0
    assert done.stdout.count("1 failed") == 1


@pytest.mark.parametrize("text", ["def test_one():\n    assert 0\n", "import no_such_module\n", ""])
def test_check_fails_without_a_passing_test(tmp_path: Path, text: str) -> None:
    assert checked(tmp_path, text).returncode != 0


def test_check_passes_when_all_tests_pass(tmp_path: Path) -> None:
    done = checked(tmp_path, "def test_one():\n    pass\n")
    assert done.returncode == 0, done.stdout + done.stderr


def test_checks_that_leave_cpus_idle_run_in_parallel() -> None:
    argv = [sys.executable, "scripts/check.py", "shell", "licences"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "==> shell" in done.stdout and "licences and sources are in order" in done.stdout


def test_failing_parallel_check_ends_run() -> None:
    text = "import sys; sys.path.insert(0, 'scripts'); import check; check.PYTHON = 'false'; sys.exit(check.main({!r}))"
    argv = [sys.executable, "-c", text.format(["shell", "licences", "sqlite-tests"])]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "sqlite-tests" not in done.stdout


def said_by(program: str) -> str:
    call = f'import sys\nsys.path.insert(0, "scripts")\nimport check\n{program}'
    return subprocess.run([sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_checks_run_in_order_with_idle_ones_in_parallel() -> None:
    said = said_by("print([len(group) for group in check.in_turn(list(check.CHECKS))], sum(check.in_turn(['x']), []))")
    assert said == "[11, 1, 1, 1] ['x']\n"
    alone = said_by("print(list(check.in_turn(['browser-tests', 'sqlite-tests', 'style'])))")
    assert alone == "[['browser-tests'], ['sqlite-tests'], ['style']]\n"


def _runs(mark: Path, word: str) -> bool:
    return any(word in Path(f"/proc/{pid}/cmdline").read_text(errors="replace") for pid in naming(mark))


@pytest.mark.parametrize("names", [["postgres-tests"], ["postgres-tests", "browser-tests"]], ids=["alone", "beside"])
def test_interrupted_checks_leave_no_processes(names: list[str], tmp_path: Path) -> None:
    """Interrupted while tests run on PostgreSQL."""
    own = {name: value for name, value in os.environ.items() if name != "PADDOCK_TESTS_MARK"}
    with (tmp_path / "said").open("wb") as said:
        argv = [sys.executable, "scripts/check.py", *names]
        process = subprocess.Popen(argv, cwd=ROOT, env=own, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    mark = Path(tempfile.gettempdir()) / f"paddock-checks-{process.pid}-run"  # in the environment of all it starts
    try:
        started = eventually(
            lambda: (_runs(mark, "postgres") and _runs(mark, "--part=cluster")) or process.poll() is not None,
            timeout_s=180,
        )
        assert started and process.poll() is None, (tmp_path / "said").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=180) == 128 + signal.SIGTERM, (tmp_path / "said").read_text()
        assert naming(mark) == []
    finally:
        process.kill()
        process.wait()
        end_left(mark)
