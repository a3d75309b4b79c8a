"""Control gallop, the bundled server, which has nginx's command line and signals."""

from __future__ import annotations

from agents.host import listening_sockets, processes
from agents.host.engines.base import Engine, Generation, is_of


class Server(Engine):
    stop_signal = "QUIT"

    def test_argv(self, main_config: str, prefix: str) -> list[str]:
        return [self.binary, "-t", "-q", "-p", prefix, "-c", main_config]

    def start_argv(self) -> list[str]:
        return [self.binary, "-p", self.prefix, "-c", self.main_config]

    def is_failure(self, line: str, pid: int) -> bool:
        return is_of(line, pid, "emerg")

    def is_replaced(self, before: Generation) -> bool:
        """Return whether new workers have replaced the old workers, so that only new workers have listening sockets.

        If no process listens, because the configuration has no site, return whether new workers run.
        """
        pid = self.pid()
        now = processes.children(pid)
        inodes = listening_sockets.inodes()
        if any(processes.listens(child, inodes) for child in before.workers & now):
            return False
        fresh = now - before.workers
        nothing_to_hear = bool(fresh) and not processes.listens(pid, inodes)
        return nothing_to_hear or any(processes.listens(child, inodes) for child in fresh)
