"""Control Apache httpd: a parent process and, after a graceful restart, children of a new generation.

https://httpd.apache.org/docs/2.4/stopping.html. Debian's configuration needs variables that apache2ctl reads from the
file `envvars`. If this file is next to the main configuration, the agent calls apache2ctl instead of the binary.
"""

from __future__ import annotations

import os
import re

from agents.host import commands, listening_sockets, processes
from agents.host.engines.base import Engine, Generation

FAILURES = ("AH00020:", "no listening sockets available", "AH00015: Unable to open logs", "Unable to open logs")
CONTROL_PROGRAMS = ("apache2ctl", "apachectl")
_INCLUDED = re.compile(r"^\s*\([0-9*]+\) (/.*)$", re.MULTILINE)
_LISTEN = re.compile(rb"^\s*Listen\s", re.IGNORECASE | re.MULTILINE)


class Server(Engine):
    reload_signal = "USR1"
    stop_signal = "WINCH"  # graceful-stop

    def test_argv(self, main_config: str, prefix: str) -> list[str]:
        return [*self._program(), "-d", prefix, "-f", main_config, "-t"]

    def listens(self) -> bool:
        """Return whether the configuration has a directive `Listen`.

        Without this directive, httpd exits after a graceful restart. Its own test of the configuration does not report
        that.
        """
        done = commands.run([*self.test_argv(self.main_config, self.prefix), "-D", "DUMP_INCLUDES"], self.env())
        files = _INCLUDED.findall(done.output)
        return done.exit_code != 0 or not files or any(_opens_port(path) for path in files)

    def is_failure(self, line: str, pid: int) -> bool:
        """Return whether a line of the error log reports a failed start or reload of the process `pid`.

        The format is "[Mon Nov 23 08:35:13.123456 2026] [core:emerg] [pid 1234:tid 5678] AH00020: message". Before
        httpd has opened its logs, a line is the message alone.
        """
        parts = line.split("] ", 3)
        if len(parts) == 4 and line.startswith("["):
            own = parts[2].startswith("[pid ") and parts[2][5:].partition(":")[0] == str(pid)
            return own and parts[3].startswith(FAILURES)
        return line.startswith(FAILURES)

    def start_argv(self) -> list[str]:
        control = self._program()
        if control[0] != self.binary and self.main_config == os.path.join(self.prefix, "apache2.conf"):
            return [*control, "start"]
        return [*control, "-d", self.prefix, "-f", self.main_config, "-k", "start"]

    def env(self) -> dict[str, str]:
        folder = os.path.dirname(self.main_config)
        if not os.path.exists(os.path.join(folder, "envvars")):
            return {}
        # APACHE_STARTED_BY_SYSTEMD keeps apache2ctl from passing the start to systemctl; `Engine.start` does that.
        return {"APACHE_CONFDIR": folder, "APACHE_STARTED_BY_SYSTEMD": "1"}

    def is_replaced(self, before: Generation) -> bool:
        """Return whether the former children have closed their listening sockets, so that only new children accept
        connections. A child first closes these sockets, and then finishes its requests (ap_close_listeners).
        """
        now = processes.children(self.pid())
        inodes = listening_sockets.inodes()
        if any(processes.listens(child, inodes) for child in before.workers & now):
            return False
        return any(processes.listens(child, inodes) for child in now - before.workers)

    def has_workers(self) -> bool:
        inodes = listening_sockets.inodes()
        return any(processes.listens(child, inodes) for child in processes.children(self.pid()))

    def _program(self) -> list[str]:
        if not self.env():
            return [self.binary]
        folder = os.path.dirname(self.binary)
        for name in CONTROL_PROGRAMS:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return [path]
        return [self.binary]


def _opens_port(path: str) -> bool:
    return bool(_LISTEN.search(processes.read(path))) or not os.access(path, os.R_OK)
