"""Base class for controlling a web server: a main process named by a pid file, its workers, and signals.

A reload is a signal to the main process. The server's own commands for a reload, `-s reload` and `-k graceful`, are not
used: they first parse the whole configuration once more, which is most of the work with thousands of sites.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import IO, Callable

from agents.host import commands, processes, safe
from agents.host.errors import Refusal

START_TIMEOUT_S = 20.0
LIVE_TIMEOUT_S = 15.0
GONE_S = 5.0
LEAVE_S = 0.01  # idle workers exit within this time after a signal
LOOK_EVERY_S = 0.05  # interval of checks for a failed reload, which cost more than checks for success
REST_S = 0.6  # a main process that reported a failure and was idle for this long has given up
GRACE_S = 5.0  # time for a stopping server to finish its requests
STOP_TIMEOUT_S = 15.0


class EngineError(Exception):
    """Error: the web server did not execute a command. `done` is the result of the program that ran, with its output,
    if any.
    """

    def __init__(self, message: str, done: commands.Done | None = None) -> None:
        super().__init__(message)
        self.done = done


class Generation:
    """State of a server just before a reload: its main process, its workers, and the end positions of its error logs.

    `relieved`: whether the workers were told to exit (Engine.relieve).
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.relieved = False
        self.rest: tuple[object, float] = (None, 0.0)  # last observed activity of the main process, and its time
        self.logs = processes.error_logs(pid) if pid else []
        # Last, just before the signal: a worker started in between would count as new.
        self.workers = processes.children(pid) if pid else frozenset()


class Engine:
    """Base class for the control of one web server as described by an EngineControl."""

    reload_signal = "HUP"
    stop_signal = "TERM"
    relocatable = True  # a copy of the configuration in another folder can be tested
    starts_with_errors = False  # starts despite errors of its own test
    first_look_s = 0.002  # minimum time before a reload takes effect

    def __init__(self, control: dict[str, str]) -> None:
        self.name = control["engine"]
        self.binary = control["binary"]
        self.prefix = control["prefix"]
        self.main_config = control["main_config"]
        self.config_root = control["config_root"]
        self.pid_file = control["pid_file"]
        self.unit = control["unit"] if control["control"] == "systemd" else ""
        self._true_program = ""

    # --- specific to each server ---

    def test_argv(self, main_config: str, prefix: str) -> list[str]:
        raise NotImplementedError

    def start_argv(self) -> list[str]:
        raise NotImplementedError

    def env(self) -> dict[str, str]:
        return {}

    def is_replaced(self, before: Generation) -> bool:
        """Return whether the workers of `before` no longer accept connections, and new workers do."""
        raise NotImplementedError

    def is_failure(self, line: str, pid: int) -> bool:
        """Return whether a line of the error log is from the main process `pid` and reports a failed reload.

        Similar text in other lines, such as a path requested by a visitor, does not count.
        """
        return False

    def relieve(self, before: Generation) -> bool:
        """Tell the old workers of `before` to exit if new workers have taken over. Return True only if this call told
        them.

        Only some servers need this call, because they delay the exit of their old workers.
        """
        return False

    # --- common to all servers ---

    def pid(self) -> int:
        """Return the id of the web server's main process; 0 if there is none.

        An outdated pid file can contain the id of another program's process, which does not count.
        """
        pid = processes.pid_in(self.pid_file)
        if not pid:
            return 0
        same_program = processes.program(pid)[:15] == os.path.basename(self.program())[:15]
        return pid if same_program and processes.exists(pid) else 0

    def require_own(self, also: frozenset[int] = frozenset()) -> None:
        """Raise Refusal if an untrusted account can change the program or the configuration.

        The agent's account is about to run the program and read the configuration. Trusted accounts are root, the
        agent's, and those in `also`.
        """
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
        """Run the server's own test of its configuration, and return the result. `prepare` runs in the child process
        before the program.
        """
        argv = self.test_argv(main_config or self.main_config, prefix or self.prefix)
        return commands.run(argv, self.env(), prepare)

    def new_errors(self, done: commands.Done, before: commands.Done) -> commands.Done:
        """Return the test result `done`, but count only errors as failures that the earlier result `before` does not
        contain.

        Servers that start despite errors (`starts_with_errors`) need this.
        """
        raise NotImplementedError

    def start(self) -> commands.Done:
        """Start the server and wait until it runs. Raise EngineError with the server's output if it does not start."""
        self._wait_for_former()
        argv = ["systemctl", "start", self.unit] if self.unit else self.start_argv()
        with _scratch() as said:
            child = _started(argv, self.env(), said.fileno())
            deadline = time.monotonic() + START_TIMEOUT_S
            while time.monotonic() < deadline:
                code = child.poll()
                if self.pid() and self.has_workers():
                    return commands.Done(argv, 0, _words(said))
                if code:
                    raise EngineError("the web server did not start", commands.Done(argv, code, _words(said)))
                time.sleep(0.01)
            done = commands.Done(argv, child.poll() or -1, _words(said))
        raise EngineError("the web server did not start within %g s" % START_TIMEOUT_S, done)

    def _wait_for_former(self) -> None:
        """Wait until the former main process, which has ended, is gone from the process table.

        httpd does not start as long as the table contains this process.
        """
        pid = processes.pid_in(self.pid_file)
        until = time.monotonic() + GONE_S
        while pid and processes.is_zombie(pid) and time.monotonic() < until:
            time.sleep(0.01)

    def has_workers(self) -> bool:
        return True

    def listens(self) -> bool:
        """Return whether the configuration opens a port. If it does not, a server that cannot run without a port is
        stopped.
        """
        return True

    def reload(self, pid: int) -> tuple[Generation, list[str]]:
        """Reload the server with the main process `pid`; return (state before the reload, command)."""
        before = Generation(pid)
        if self.unit:
            done = commands.run(["systemctl", "reload", self.unit])
            if done.exit_code:
                raise EngineError("systemctl could not reload the web server", done)
            return before, done.argv
        return before, self._signal(self.reload_signal, before.pid)

    def wait_live(self, before: Generation) -> None:
        """Wait until the server uses the new configuration. Raise EngineError with lines of the error log if the reload
        fails.
        """
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
                message = "the web server still has its old workers %g s after the reload" % LIVE_TIMEOUT_S
                raise EngineError(message, commands.Done([], 1, self._failure(before)))

    def _look_for_failure(self, before: Generation) -> None:
        failure = self._failure(before)
        if failure and self._came_to_rest(before, failure):
            raise EngineError("the web server kept its old configuration", commands.Done([], 1, failure))
        if not self.pid():
            raise EngineError("the web server ended during the reload", commands.Done([], 1, failure))

    def _came_to_rest(self, before: Generation, failure: str) -> bool:
        """Return whether the main process has been idle and silent for REST_S seconds and has no new workers.

        Only then does a log line about a failure count, because other accounts may forge such a line. REST_S is longer
        than the 0.5 s after which nginx tries to bind a port again.
        """
        sleeps, used = processes.is_idle(before.pid)
        children = processes.children(before.pid, living=False)
        now, state = time.monotonic(), (used, children, failure)
        if not sleeps or before.rest[0] != state:
            before.rest = (state, now)
        return now - before.rest[1] >= REST_S and children <= before.workers

    def stop(self) -> list[str]:
        """Stop the server and wait for its end; return the command, [] if the server was not running."""
        pid = self.pid()
        if not pid:
            return []
        if self.unit:
            done = commands.run(["systemctl", "stop", self.unit])
            if done.exit_code:
                raise EngineError("systemctl could not stop the web server", done)
            return done.argv
        argv = self._signal(self.stop_signal, pid)
        started = time.monotonic()
        while processes.exists(pid):
            waited = time.monotonic() - started
            if waited > GRACE_S and argv[1] != "-TERM":
                argv = self._signal("TERM", pid)
            if waited > STOP_TIMEOUT_S:
                raise EngineError("the web server did not end within %g s" % STOP_TIMEOUT_S)
            time.sleep(0.01)
        return argv

    def status(self) -> dict[str, object]:
        """Return the current state: {"running", "pid", "workers"}."""
        pid = self.pid()
        return {"running": bool(pid), "pid": pid, "workers": sorted(processes.children(pid)) if pid else []}

    def _signal(self, name: str, pid: int) -> list[str]:
        argv = ["kill", "-" + name, str(pid)]
        if not pid:
            raise EngineError(
                "the web server is not running: %s does not contain the number of its process" % self.pid_file
            )
        try:
            os.kill(pid, signal.Signals["SIG" + name])
        except PermissionError:
            message = (
                "the agent's account may not send signals to the web server (process %d); let the agent run "
                "as root or with sudo"
            )
            raise EngineError(message % pid) from None
        except ProcessLookupError:
            raise EngineError("the web server ended a moment ago (process %d)" % pid) from None
        return argv

    def _failure(self, before: Generation) -> str:
        """Return the lines of the error logs in which the main process reports a failed reload.

        All other lines are left out, because they may contain requests to any site.
        """
        return processes.added(before.logs, lambda line: self.is_failure(line, before.pid))


def is_of(line: str, pid: int, level: str) -> bool:
    """Return whether a line has the format of nginx's error log with a date, the level `level`, and the process ID
    `pid`.

    The format is 2026/11/23 08:35:13 [emerg] 1234#1234: message
    """
    words = line.split(" ", 4)
    if len(words) < 5 or words[2] != "[%s]" % level or words[3].partition("#")[0] != str(pid):
        return False
    date, hour = words[0].split("/"), words[1].split(":")
    return len(date) == 3 == len(hour) and all(word.isdigit() for word in date + hour) and words[3].endswith(":")


def _started(argv: list[str], env: dict[str, str], output: int) -> subprocess.Popen[bytes]:
    try:
        return commands.start(argv, env, output, session=True)
    except Refusal as error:
        raise EngineError(error.message) from None
    except OSError as error:
        raise EngineError("%s cannot be run: %s" % (argv[0], error.strerror or "the program does not exist")) from None


def _scratch() -> IO[bytes]:
    """Return an unnamed temporary file for the server's output during its start. A pipe would break when the agent
    exits.
    """
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("said"), "w+b")
    import tempfile  # costs several milliseconds; only needed with C libraries older than 2018

    return tempfile.TemporaryFile()


def _words(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(commands.MAX_OUTPUT).decode("utf-8", "replace").strip()
