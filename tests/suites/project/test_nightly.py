"""`make nightly` draws new values, sites, and requests from one seed that it names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import nightly  # noqa: E402


def test_every_step_uses_the_seed_and_its_share_of_the_time() -> None:
    steps = list(nightly.steps(4711, 100))
    assert sum(step.minutes for step in steps) == pytest.approx(100)
    names = {step.name.split(":")[0] for step in steps}
    assert names == {"hypothesis", "embedded mode", "conformance", "quoting", "differential"}
    for step in steps:
        assert step.name == "embedded mode" or step.repeats or any("4711" in argument for argument in step.argv)


def test_hypothesis_step_runs_the_files_that_use_hypothesis() -> None:
    argv = nightly.pytest()
    assert "tests/benchmarks/test_statistics.py" in argv
    assert "tests/core/test_queue.py" not in argv


def test_generators_take_the_options_of_the_steps() -> None:
    """A suite that no longer knows an option ends with 2, which would pass for a time that is over."""
    for step in nightly.steps(1, 1):
        if step.name in ("hypothesis", "embedded mode"):
            continue
        program = step.argv[: step.argv.index("-m") + 2]
        described = subprocess.run([*program, "--help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for option in step.argv:
            assert not option.startswith("--") or option in described


def test_embedded_step_runs_the_tests_that_make_test_leaves_out() -> None:
    argv = nightly.embedded()
    part = next(argument for argument in argv if argument.startswith("--part="))
    program = [
        *argv[: argv.index("-n")],
        part,
        "--collect-only",
        "tests/fpm/test_real_host.py",
        "tests/test_architecture.py",
    ]
    listed = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "tests/fpm/test_real_host.py::" in listed
    assert "tests/test_architecture.py::" not in listed


@pytest.mark.parametrize(("code", "is_failure"), [(0, False), (1, True), (nightly.NOT_FINISHED, False)])
def test_suite_fails_the_run_unless_it_passed_or_ran_out_of_time(code: int, is_failure: bool) -> None:
    assert nightly.failed([sys.executable, "-c", f"raise SystemExit({code})"], 0) is is_failure


def test_failure_is_named_with_the_command_that_repeats_it(capfd: pytest.CaptureFixture[str]) -> None:
    step = nightly.Step("made", [sys.executable, "-c", "raise SystemExit(1)"], 0.001, repeats=True)
    assert nightly.run(step, 4711).endswith("raise SystemExit(1) 4711")
