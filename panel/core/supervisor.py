"""Runs several programs as one: started together, kept alive, ended together, none left behind.

Linux only: a child asks the kernel to be ended when its supervisor dies (prctl PR_SET_PDEATHSIG), so that not even
`kill -9` of the supervisor leaves an orphan.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with(parent: int) -> Callable[[], None]:
    """What a child runs between fork and exec."""

    def setup() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # the supervisor died before prctl took hold
            os._exit(1)

    return setup


@dataclass
class Program:
    """`backoff_s` doubles with every quick death, so that a program that cannot start does not burn the CPU."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    backoff_s: float = 0.5
    restart_at: float = 0.0

    def start(self) -> None:
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **self.env},
            start_new_session=True,  # Ctrl-C reaches the supervisor alone, which ends the others in order
            preexec_fn=_die_with(os.getpid()),
        )

    def ended(self) -> int | None:
        """The exit code of a program that should be running but is not."""
        return self.process.poll() if self.process else None


class Supervisor:
    def __init__(self, programs: Sequence[Program], *, say: Callable[[str], None]) -> None:
        self.programs = list(programs)
        self.say = say
        self.stopping = False

    def start(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        for program in self.programs:
            program.start()

    def _on_signal(self, number: int, frame: object) -> None:
        self.stopping = True

    def watch(self) -> None:
        """Returns when a signal asked to stop; restarts what dies until then."""
        while not self.stopping:
            for program in self.programs:
                self._revive(program)
            time.sleep(0.2)

    def _revive(self, program: Program) -> None:
        code, now = program.ended(), time.monotonic()
        if code is None:
            return
        if not program.restart_at:
            lived = now - program.started_at
            program.backoff_s = 0.5 if lived > 30 else min(program.backoff_s * 2, 30.0)
            program.restart_at = now + program.backoff_s
            self.say(f"{program.name} ended with {code}; it starts again in {program.backoff_s:.0f} s")
        elif now >= program.restart_at:
            program.restart_at = 0.0
            program.start()

    def stop(self, *, patience_s: float = 10.0) -> None:
        """Asks every program to end, last started first; kills the group of whatever has not after `patience_s`."""
        running = [p for p in reversed(self.programs) if p.process and p.process.poll() is None]
        for program in running:
            assert program.process
            program.process.terminate()
        deadline = time.monotonic() + patience_s
        for program in running:
            assert program.process
            try:
                program.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.say(f"{program.name} does not end; killed")
                os.killpg(program.process.pid, signal.SIGKILL)
                program.process.wait()
