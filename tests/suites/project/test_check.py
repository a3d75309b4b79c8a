"""`make test` gives a test that failed a second try, alone, and says so; it never passes one that fails twice."""

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
folder, options = pathlib.Path(sys.argv[1]), eval(sys.argv[2])
check.pytest("test_made.py", env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, cwd=folder, **options)
print(check.unsteady)
"""
FAILS_ONCE = """
from pathlib import Path
def test_one():
    before = Path(__file__).with_suffix(".ran")
    was_there = before.exists()
    before.touch()
    assert was_there
def test_two():
    assert True
"""


GOES_ON = """
from pathlib import Path
came_so_far = False
def test_one():
    global came_so_far
    came_so_far = True
def test_two():
    before = Path(__file__).with_suffix(".ran")
    was_there = before.exists()
    before.touch()
    assert came_so_far and was_there
"""


def checked(folder: Path, text: str, **options: bool) -> subprocess.CompletedProcess[str]:
    (folder / "test_made.py").write_text(text)
    argv = [sys.executable, "-c", CALL, str(folder), repr(options)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_check_names_test_that_passes_alone_as_unsteady(tmp_path: Path) -> None:
    done = checked(tmp_path, FAILS_ONCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_made.py::test_one" in done.stdout.splitlines()[-1]
    assert "test_two" not in done.stdout.splitlines()[-1]


def test_check_repeats_whole_file_of_dependent_tests(tmp_path: Path) -> None:
    done = checked(tmp_path, GOES_ON, whole_files=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_made.py::test_two" in done.stdout.splitlines()[-1]


def test_check_fails_when_test_fails_twice(tmp_path: Path) -> None:
    done = checked(tmp_path, "def test_one():\n    assert 1 == 2\n")
    assert done.returncode != 0
    assert "once more, alone" in done.stdout


def test_check_does_not_retry_many_failures(tmp_path: Path) -> None:
    done = checked(tmp_path, "".join(f"def test_{number}():\n    assert 0\n" for number in range(5)))
    assert done.returncode != 0
    assert "once more" not in done.stdout


def test_check_does_not_retry_collection_error(tmp_path: Path) -> None:
    done = checked(tmp_path, "import no_such_module\n")
    assert done.returncode != 0
    assert "once more" not in done.stdout


def test_idle_checks_run_in_parallel() -> None:
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


def test_unsteady_tests_of_parallel_check_are_listed_at_end() -> None:
    program = "print(check.named_unsteady('..F\\n==> UNSTEADY: tests/a.py::test_b[c] failed once and passed alone\\n'))"
    assert said_by(program) == "['tests/a.py::test_b[c]']\n"


def _runs(mark: Path, word: str) -> bool:
    return any(word in Path(f"/proc/{pid}/cmdline").read_text(errors="replace") for pid in naming(mark))


@pytest.mark.parametrize("names", [["postgres-tests"], ["postgres-tests", "browser-tests"]], ids=["alone", "beside"])
def test_interrupted_checks_leave_no_processes(names: list[str], tmp_path: Path) -> None:
    """Told to end while its tests run on a PostgreSQL."""
    own = {name: value for name, value in os.environ.items() if name != "PADDOCK_TESTS_MARK"}
    with (tmp_path / "said").open("wb") as said:
        argv = [sys.executable, "scripts/check.py", *names]
        process = subprocess.Popen(argv, cwd=ROOT, env=own, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    mark = Path(tempfile.gettempdir()) / f"paddock-checks-{process.pid}-run"  # in the environment of all it starts
    try:
        started = eventually(
            lambda: (_runs(mark, "postgres") and _runs(mark, "--cluster")) or process.poll() is not None, timeout_s=180
        )
        assert started and process.poll() is None, (tmp_path / "said").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=180) == 128 + signal.SIGTERM, (tmp_path / "said").read_text()
        assert naming(mark) == []
    finally:
        process.kill()
        process.wait()
        end_left(mark)
