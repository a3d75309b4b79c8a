"""What all servers have in common: a main process named by a pid file, its workers, and signals to it.

A reload is a signal to the main process and not a call of the server's own `-s reload` or `-k graceful`: those parse
the whole configuration once more, and with thousands of sites that is most of the work.
"""

from __future__ import annotations

import os
import time

from agents.host import commands, lean, processes, safe
from agents.host.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Callable

START_TIMEOUT_S = 20.0
LIVE_TIMEOUT_S = 15.0
LEAVE_S = 0.01  # workers that have nothing to finish end within this after they were told to
LOOK_EVERY_S = 0.05  # how often a server that reloads is suspected of having failed, which costs more than asking
REST_S = 0.6  # a main process that said that it failed, and did nothing for this long, has given up
GRACE_S = 5.0  # how long a stopping server may finish requests before it is told to leave them
STOP_TIMEOUT_S = 15.0


class EngineError(Exception):
    """The server did not do what it was told. `done` holds its own words."""

    def __init__(self, message: str, done: commands.Done | None = None) -> None:
        super().__init__(message)
        self.done = done


class Generation:
    """What ran before a reload: the main process, its workers, and its error logs from where they ended. `relieved`:
    whether the workers were told to leave (Engine.relieve)."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.relieved = False
        self.rest: tuple[object, float] = (None, 0.0)  # what the main process was doing when looked at, and since when
        self.logs = processes.error_logs(pid) if pid else []
        # Last, just before the server is told: one that starts in between would pass for new.
        self.workers = processes.children(pid) if pid else frozenset()


class Engine:
    """One server under the control described by an EngineControl."""

    reload_signal = "HUP"
    stop_signal = "TERM"
    relocatable = True  # its configuration can be tested from a copy in another folder
    starts_with_errors = False  # whether it runs with what its own test calls errors
    first_look_s = 0.002  # a reload never takes effect sooner: asking before only costs

    def __init__(self, control: dict[str, str]) -> None:
        self.name = control["engine"]
        self.binary = control["binary"]
        self.prefix = control["prefix"]
        self.main_config = control["main_config"]
        self.config_root = control["config_root"]
        self.pid_file = control["pid_file"]
        self.unit = control["unit"] if control["control"] == "systemd" else ""
        self._true_program = ""

    # --- what each server says differently ---

    def test_argv(self, main_config: str, prefix: str) -> list[str]:
        raise NotImplementedError

    def start_argv(self) -> list[str]:
        raise NotImplementedError

    def env(self) -> dict[str, str]:
        return {}

    def is_replaced(self, before: Generation) -> bool:
        """Whether the workers of `before` take no new connections any more and others do."""
        raise NotImplementedError

    def is_failure(self, line: str, pid: int) -> bool:
        """Whether this line of its error log is its main process's own, and says that a reload failed. Others' words in
        the log, such as a path that a visitor asked for, are no such line."""
        return False

    def relieve(self, before: Generation) -> bool:
        """Has the workers of `before` leave, where the server waits with that though others have taken their place.
        Whether it was done just now."""
        return False

    # --- what is the same for all ---

    def pid(self) -> int:
        """The main process, 0 when the server does not run. A stale pid file names somebody else's process."""
        pid = processes.pid_in(self.pid_file)
        if not pid:
            return 0
        same_program = processes.program(pid)[:15] == os.path.basename(self.program())[:15]
        return pid if same_program and processes.exists(pid) else 0

    def require_own(self, also: frozenset[int] = frozenset()) -> None:
        """Refusal where accounts besides root, the agent's and `also` could change the program or the configuration,
        which are about to be run and read as the agent's account."""
        for path in (self.binary, self.main_config, self.config_root, self.prefix):
            try:
                safe.true_path(path, also)
            except (FileNotFoundError, NotADirectoryError):
                continue

    def program(self) -> str:
        if not self._true_program:
            self._true_program = os.path.realpath(self.binary)
        return self._true_program

    def test(self, main_config: str = "", prefix: str = "", prepare: Callable[[], None] | None = None) -> commands.Done:
        """The server's own test of its configuration."""
        argv = self.test_argv(main_config or self.main_config, prefix or self.prefix)
        return commands.run(argv, self.env(), prepare)

    def new_errors(self, done: commands.Done, before: commands.Done) -> commands.Done:
        """Of a server that starts with errors: `done` passes where it found only those that it found `before`, and
        says which they are."""
        raise NotImplementedError

    def start(self) -> commands.Done:
        """Starts the server and waits until it runs. EngineError with its own words when it does not."""
        argv = ["systemctl", "start", self.unit] if self.unit else self.start_argv()
        with _scratch() as said:
            child = _started(argv, self.env(), said.fileno())
            deadline = time.monotonic() + START_TIMEOUT_S
            while time.monotonic() < deadline:
                code = child.poll()
                if self.pid() and self.has_workers():
                    child.leave()
                    return commands.Done(argv, 0, _words(said))
                if code:
                    raise EngineError("the server did not start", commands.Done(argv, code, _words(said)))
                time.sleep(0.01)
            done = commands.Done(argv, child.poll() or -1, _words(said))
            child.leave()
        raise EngineError("the server did not start in %g s" % START_TIMEOUT_S, done)

    def has_workers(self) -> bool:
        return True

    def listens(self) -> bool:
        """Whether its configuration opens any port. A server that cannot run without one is stopped instead."""
        return True

    def reload(self, pid: int) -> tuple[Generation, list[str]]:
        """Tells the server, whose main process is `pid`, to read its configuration again; returns what ran before and
        what was done."""
        before = Generation(pid)
        if self.unit:
            done = commands.run(["systemctl", "reload", self.unit])
            if done.exit_code:
                raise EngineError("the server was not reloaded", done)
            return before, done.argv
        return before, self._signal(self.reload_signal, before.pid)

    def wait_live(self, before: Generation) -> None:
        """Returns once the new configuration answers. EngineError with what the error log says when it does not."""
        began = looked = time.monotonic()
        pause = self.first_look_s
        time.sleep(pause)
        while not self.is_replaced(before):
            if self.relieve(before):
                processes.wait_ended(before.workers, LEAVE_S)
                continue
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
            now = time.monotonic()
            if now - looked > LOOK_EVERY_S:
                self._look_for_failure(before)
                looked = now
            if now - began > LIVE_TIMEOUT_S:
                message = "the server still has its old workers %g s after it was told to reload" % LIVE_TIMEOUT_S
                raise EngineError(message, commands.Done([], 1, self._failure(before)))

    def _look_for_failure(self, before: Generation) -> None:
        failure = self._failure(before)
        if failure and self._came_to_rest(before, failure):
            raise EngineError("the server kept its old configuration", commands.Done([], 1, failure))
        if not self.pid():
            raise EngineError("the server ended when it was reloaded", commands.Done([], 1, failure))

    def _came_to_rest(self, before: Generation, failure: str) -> bool:
        """Whether the main process has done and said nothing for a while and has no new workers. A line that somebody
        forged into its log does not stop it from going on; nginx tries a port again every half second."""
        sleeps, used = processes.is_idle(before.pid)
        children = processes.children(before.pid, living=False)
        now, state = time.monotonic(), (used, children, failure)
        if not sleeps or before.rest[0] != state:
            before.rest = (state, now)
        return now - before.rest[1] >= REST_S and children <= before.workers

    def stop(self) -> list[str]:
        """Stops the server and waits until it is gone; nothing to do when it does not run."""
        pid = self.pid()
        if not pid:
            return []
        if self.unit:
            done = commands.run(["systemctl", "stop", self.unit])
            if done.exit_code:
                raise EngineError("the server was not stopped", done)
            return done.argv
        argv = self._signal(self.stop_signal, pid)
        started = time.monotonic()
        while processes.exists(pid):
            waited = time.monotonic() - started
            if waited > GRACE_S and argv[1] != "-TERM":
                argv = self._signal("TERM", pid)
            if waited > STOP_TIMEOUT_S:
                raise EngineError("the server did not end in %g s" % STOP_TIMEOUT_S)
            time.sleep(0.01)
        return argv

    def status(self) -> dict[str, object]:
        """{"running", "pid", "workers"}."""
        pid = self.pid()
        return {"running": bool(pid), "pid": pid, "workers": sorted(processes.children(pid)) if pid else []}

    def _signal(self, name: str, pid: int) -> list[str]:
        argv = ["kill", "-" + name, str(pid)]
        if not pid:
            raise EngineError("the server does not run: %s names no process of its" % self.pid_file)
        try:
            os.kill(pid, lean.number(name))
        except PermissionError:
            message = "this login may not signal the server (process %d); let the agent run as root or by sudo"
            raise EngineError(message % pid) from None
        except ProcessLookupError:
            raise EngineError("the server ended just now (process %d)" % pid) from None
        return argv

    def _failure(self, before: Generation) -> str:
        """What its main process said of a reload that failed: those lines alone, since a log holds what visitors of
        every site asked for."""
        return processes.added(before.logs, lambda line: self.is_failure(line, before.pid))


def is_of(line: str, pid: int, level: str) -> bool:
    """Whether a line of an error log as nginx and gallop write it begins with a date, that level and that process:
    2026/11/23 08:35:13 [emerg] 1234#1234: what happened"""
    words = line.split(" ", 4)
    if len(words) < 5 or words[2] != "[%s]" % level or words[3].partition("#")[0] != str(pid):
        return False
    date, hour = words[0].split("/"), words[1].split(":")
    return len(date) == 3 == len(hour) and all(word.isdigit() for word in date + hour) and words[3].endswith(":")


def _started(argv: list[str], env: dict[str, str], output: int) -> commands.Child:
    try:
        return commands.Child(argv, env, output, session=True)
    except Refusal as error:
        raise EngineError(error.message) from None
    except OSError as error:
        raise EngineError("%s cannot be run: %s" % (argv[0], error.strerror or "it is not there")) from None


def _scratch() -> IO[bytes]:
    """A file without a name, for what the server says while it starts; a pipe would break once the agent has gone."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("said"), "w+b")
    import tempfile  # which costs several milliseconds; only C libraries older than 2018 need it

    return tempfile.TemporaryFile()


def _words(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(commands.MAX_OUTPUT).decode("utf-8", "replace").strip()
