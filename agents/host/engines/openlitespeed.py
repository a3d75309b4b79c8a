"""OpenLiteSpeed: one configuration below $SERVER_ROOT/conf, a guardian process, zero-downtime restarts.

`openlitespeed -t` always tests the configuration below its own server root, so a copy elsewhere cannot be tested. On
SIGUSR1 the server starts its successor, which writes its own process id into the pid file; the old one finishes.
"""

from __future__ import annotations

import os

from agents.host import processes
from agents.host.engines.base import Engine, Generation

PID_FILE = "/tmp/lshttpd/lshttpd.pid"  # noqa: S108 - where this server keeps it unless OLS_PID_FILE says otherwise


class Server(Engine):
    reload_signal = "USR1"
    relocatable = False

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
        try:
            pid = int(processes.read(self.pid_file).split()[0])
        except (IndexError, ValueError):
            return 0
        name = processes.program(pid)
        return pid if name.startswith(("openlitespeed", "litespeed", "lshttpd")) and processes.exists(pid) else 0

    def is_replaced(self, before: Generation) -> bool:
        pid = self.pid()
        return bool(pid) and (pid != before.pid or bool(processes.children(pid) - before.workers))
