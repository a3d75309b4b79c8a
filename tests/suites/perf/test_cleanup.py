"""An interrupted benchmark leaves no server, panel, agent or file behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.process_cleanup import end_left, naming
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
HOSTS = 2
TIMEOUT_S = 180.0


@contextmanager
def _pushing(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`tests.suites.perf push` on a few hosts, for longer than any test."""
    own = {"TMPDIR": str(folder), "PADDOCK_PERF_HOSTS": str(HOSTS), "PADDOCK_PERF_ROUNDS": "100000"}
    environment = {**os.environ, **own, "PADDOCK_PERF_PEERS": "none"}
    environment.pop("PADDOCK_DATABASE_URL", None)
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.suites.perf", "push"], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for home in folder.glob("paddock-perf-*"):
            end_left(home)


def _lines(folder: Path) -> list[str]:
    """The command lines of what runs for the benchmark in `folder`."""
    found = []
    for home in folder.glob("paddock-perf-*"):
        for pid in naming(home):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def _is_at_work(folder: Path) -> bool:
    """All servers run and an agent was started on every host."""
    lines = _lines(folder)
    counts = [
        sum(word in line for line in lines) for word in ("nginx: master", "sshd", "agent-", "tests.suites.perf.control")
    ]
    return min(counts[:3]) >= HOSTS and counts[3] == 1


def test_benchmark_processes_end_with_benchmark(tmp_path: Path) -> None:
    with _pushing(tmp_path) as process:
        assert eventually(lambda: _is_at_work(tmp_path) or process.poll() is not None, timeout_s=TIMEOUT_S)
        said = (tmp_path / "output").read_text()
        assert process.poll() is None, said
        homes = list(tmp_path.glob("paddock-perf-*"))
        assert len(homes) == 1
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)
        assert naming(homes[0]) == [], _lines(tmp_path)
        assert process.returncode == 128 + signal.SIGTERM
        assert not homes[0].exists()
