"""OpenLiteSpeed: one configuration below $SERVER_ROOT/conf, a guardian process, zero-downtime restarts.

`openlitespeed -t` always tests the configuration below its own server root, so a copy elsewhere cannot be tested. On
SIGUSR1 the server starts its successor, which writes its own process id into the pid file; the old one finishes.
"""

from __future__ import annotations

import os

from agents.host import commands, processes
from agents.host.engines.base import Engine, EngineError, Generation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

PID_FILE = "/tmp/lshttpd/lshttpd.pid"  # noqa: S108 - where this server keeps it unless OLS_PID_FILE says otherwise


TEMPORARY = os.path.dirname(PID_FILE)
SITES = "paddock.conf"  # listeners and the list of virtual hosts, beside the main file
# What its own installation causes, whatever the configuration says.
HARMLESS = ("Get lsadm passwd failed",)
# Warnings by which it says that it takes no notice of something: a key, a block, a whole virtual host.
LOSSES = ("Not support [", "is NOT keyword", "do not match", "more '}'", "configuration failed!")


class Server(Engine):
    reload_signal = "USR1"
    relocatable = False
    starts_with_errors = True
    failure_marks = ("Fatal error in configuration",)

    def test(self, main_config: str = "", prefix: str = "", prepare: Callable[[], None] | None = None) -> commands.Done:
        """Its test ends with 1 for warnings and with 2 for errors, and with 0 for anything where it cannot write down
        what it finds. What counts are its lines of errors and of what it leaves out, unknown keys among them."""
        os.makedirs(TEMPORARY, mode=0o755, exist_ok=True)
        found = os.path.join(TEMPORARY, "testconf")
        if os.path.exists(found):
            os.unlink(found)  # by a test that broke off
        done = super().test(main_config, prefix, prepare)
        errors = [line for line in done.output.splitlines() if _is_error(line)]
        if done.exit_code not in (0, 1, 2):
            errors = ["the test broke off (%d)" % done.exit_code, *(errors or [done.output])]
        errors += self._left_out()
        return commands.Done(done.argv, 2 if errors else 0, "\n".join(errors))

    def new_errors(self, done: commands.Done, before: commands.Done) -> commands.Done:
        """It runs without what its errors are about, so a host may have had some for years."""
        old = [_lasting(line) for line in before.output.splitlines() if _is_error(line)]
        new: list[str] = []
        standing: list[str] = []
        for line in done.output.splitlines():
            known = _is_error(line) and _lasting(line) in old
            if known:
                old.remove(_lasting(line))
            (standing if known else new).append(line)
        if standing:
            standing = ["%s runs with errors that were there before this change:" % self.name, *standing]
        return commands.Done(done.argv, 2 if new else 0, "\n".join(new + standing))

    def _left_out(self) -> list[str]:
        """What is wrong where the main file does not read the sites: its own test would find nothing wrong."""
        if not os.path.exists(os.path.join(self.config_root, SITES)):
            return []
        text = processes.read(self.main_config).decode("utf-8", "replace")
        lines = [line.split(None, 1) for line in text.splitlines() if line.strip().lower().startswith("include")]
        if any(words[-1].strip().endswith(SITES) or "*" in words[-1] for words in lines):
            return []
        return ["%s does not read the panel's sites: add the line “include %s” at its end" % (self.main_config, SITES)]

    def env(self) -> dict[str, str]:
        return {} if self.pid_file == PID_FILE else {"OLS_PID_FILE": self.pid_file}

    def test_argv(self, main_config: str, prefix: str) -> list[str]:
        return [self.binary, "-t"]

    def start_argv(self) -> list[str]:
        return [self.binary]

    def program(self) -> str:
        """The installed name is a link to the program of the current version; a running one may be another."""
        return "openlitespeed" if "openlitespeed" in os.path.basename(self.binary) else os.path.realpath(self.binary)

    def pid(self) -> int:
        try:  # no contextlib here: an import of it costs every connection
            pid = int(processes.read(self.pid_file).split()[0])
        except (IndexError, ValueError):
            return 0
        name = processes.program(pid)
        return pid if name.startswith(("openlitespeed", "litespeed", "lshttpd")) and processes.exists(pid) else 0

    def _look_for_failure(self, before: Generation) -> None:
        """Between the old process and its successor there is no pid file, so only its own words tell of a failure."""
        failure = self._failure(before)
        if failure:
            raise EngineError("the server did not start with its new configuration", commands.Done([], 1, failure))

    def has_workers(self) -> bool:
        return bool(processes.children(self.pid()))

    def is_replaced(self, before: Generation) -> bool:
        """The successor takes over all sockets first, and has let go those that it has no use for once it has a worker.
        A new child of the old process says nothing: lscgid comes a second after its start."""
        pid = self.pid()
        return bool(pid) and pid != before.pid and bool(processes.children(pid))

    def listens(self) -> bool:
        """It ends when a restart leaves no listener. Other files that the main one includes may hold some."""
        texts = [processes.read(path) for path in (self.main_config, os.path.join(self.config_root, SITES))]
        lines = [line.split() for text in texts for line in text.decode("utf-8", "replace").lower().splitlines()]
        others = (line for line in lines if line and line[0] == "include" and not line[-1].endswith(SITES))
        return any(line and line[0] == "listener" for line in lines) or any(others)


def _is_error(line: str) -> bool:
    if "[ERROR]" in line:
        return not any(words in line for words in HARMLESS)
    return "[WARN]" in line and any(words in line for words in LOSSES)


def _lasting(line: str) -> str:
    """A line of its log without what differs between two tests of the same lines: date and time, its process, and the
    line in a file, which moves when lines above it come or go."""
    words = [word for word in line.split()[2:] if not word.strip("[]").isdigit()]
    place, colon, number = words[-1].rpartition(":") if words else ("", "", "")
    return " ".join([*words[:-1], place]) if colon and number.isdigit() else " ".join(words)
