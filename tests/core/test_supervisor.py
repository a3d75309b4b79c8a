"""The supervisor starts, restarts and ends programs, and leaves none behind even when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.support.waiting import eventually

DRIVER = textwrap.dedent(
    """
    import functools, os, sys, time
    from panel.core.supervisor import Program, Supervisor, run_to_end

    def child(path):
        open(path, "a").write(f"{os.getpid()}\\n")
        time.sleep(600)

    assert run_to_end(lambda: sys.exit(3)) == 3
    programs = [Program(n, functools.partial(child, f"{sys.argv[1]}/{n}")) for n in ("one", "two")]
    supervisor = Supervisor(programs, say=lambda text: print(text, flush=True))
    supervisor.start()
    supervisor.watch()
    supervisor.stop()
    """
)


def _start(folder: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder)], stdout=subprocess.PIPE)
    assert eventually(lambda: len(_pids(folder, "one")) == 1 and len(_pids(folder, "two")) == 1)
    return process


def _pids(folder: Path, name: str) -> list[int]:
    path = folder / name
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_supervisor_ends_every_program_on_interrupt(tmp_path: Path) -> None:
    supervisor = _start(tmp_path)
    supervisor.send_signal(signal.SIGINT)
    assert supervisor.wait(60) == 0
    assert not any(_alive(pid) for name in ("one", "two") for pid in _pids(tmp_path, name))


def test_supervisor_restarts_killed_program(tmp_path: Path) -> None:
    supervisor = _start(tmp_path)
    os.kill(_pids(tmp_path, "one")[0], signal.SIGKILL)
    assert eventually(lambda: len(_pids(tmp_path, "one")) == 2)
    supervisor.terminate()
    assert supervisor.wait(60) == 0


def test_supervisor_leaves_no_orphans_when_killed(tmp_path: Path) -> None:
    supervisor = _start(tmp_path)
    supervisor.kill()
    supervisor.wait(60)
    assert eventually(lambda: not any(_alive(pid) for name in ("one", "two") for pid in _pids(tmp_path, name)))
