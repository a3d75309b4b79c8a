"""Supervisor of several programs: starts, restarts and stops them together, and leaves none behind.

Programs are functions in forked children: modules imported by the parent are shared memory, so three processes need
little more time and memory than one. The parent must therefore have no threads and no open connections.

Linux only: the kernel kills a child when its supervisor dies (prctl PR_SET_PDEATHSIG), so even `kill -9` of the
supervisor leaves no orphan.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _run_forked(call: Callable[[], object], env: Mapping[str, str], parent: int) -> int:
    """Run `call` in this process, a newly forked child, as the leader of a new session; return the exit code."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # the supervisor died before prctl took effect
        return 1
    os.setsid()  # Ctrl-C reaches only the supervisor, which stops the others in order
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(env)
    try:
        call()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001 - print any error of the child before it ends
        traceback.print_exc()
        return 1
    return 0


def fork(call: Callable[[], object], env: Mapping[str, str] | None = None) -> int:
    """Fork a child that runs `call` and exits; return its process ID."""
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = _run_forked(call, env or {}, parent)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_to_end(call: Callable[[], object]) -> int:
    """Run `call` in a child, where it may start threads and open connections; return its exit code."""
    _pid, status = os.waitpid(fork(call), 0)
    return os.waitstatus_to_exitcode(status)


@dataclass
class Program:
    """A function that runs in a supervised child process.

    `backoff_s` is the pause before a restart. It doubles after every quick exit, so that a program that cannot start
    uses little CPU.
    """

    name: str
    call: Callable[[], object]
    env: Mapping[str, str] = field(default_factory=dict)
    pid: int = 0
    code: int | None = None  # exit code of the last run
    started_at: float = 0.0
    backoff_s: float = 0.5
    restart_at: float = 0.0

    def start(self) -> None:
        self.started_at, self.code = time.monotonic(), None
        self.pid = fork(self.call, self.env)

    def ended(self) -> int | None:
        """Return the exit code of a program that has ended; None while it runs."""
        if self.pid and self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    @property
    def is_running(self) -> bool:
        return bool(self.pid) and self.ended() is None


class Supervisor:
    def __init__(self, programs: Sequence[Program], *, say: Callable[[str], None]) -> None:
        self.programs = list(programs)
        self.say = say
        self.stopping = False

    def start(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        for program in self.programs:
            program.start()

    def _on_signal(self, number: int, frame: object) -> None:
        self.stopping = True

    def watch(self) -> None:
        """Restart programs that exit, until a signal requests the stop."""
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
            self.say(f"{program.name} exited with code {code}; the panel restarts it in {program.backoff_s:g} s")
        elif now >= program.restart_at:
            program.restart_at = 0.0
            program.start()

    def stop(self, *, patience_s: float = 10.0) -> None:
        """Stop all programs, the last started first; kill process groups that still run after `patience_s` seconds."""
        running = [program for program in reversed(self.programs) if program.is_running]
        for program in running:
            os.kill(program.pid, signal.SIGTERM)
        deadline = time.monotonic() + patience_s
        for program in running:
            while program.is_running and time.monotonic() < deadline:
                time.sleep(0.02)
            if program.is_running:
                self.say(f"{program.name} did not stop, so the panel killed the process")
                os.killpg(program.pid, signal.SIGKILL)
                os.waitpid(program.pid, 0)
