"""nginx: a master process and workers that write what they are into their titles.

https://nginx.org/en/docs/control.html
"""

from __future__ import annotations

from agents.host import processes
from agents.host.engines.base import Engine, Generation

WORKER = "worker process"
LEAVING = "shutting down"


class Server(Engine):
    stop_signal = "QUIT"  # finishes the requests that it has
    settles_s = 0.1  # between starting new workers and telling the old ones to leave (ngx_master_process_cycle)
    # A configuration that passes the test can still fail to bind; the master then says so and keeps what it had.
    failure_marks = ("[emerg]", "still could not bind")

    def test_argv(self, main_config: str, prefix: str) -> list[str]:
        return [self.binary, "-t", "-q", "-p", prefix, "-c", main_config]

    def start_argv(self) -> list[str]:
        return [self.binary, "-p", self.prefix, "-c", self.main_config]

    def has_workers(self) -> bool:
        return any(WORKER in processes.title(child) for child in processes.children(self.pid()))

    def is_replaced(self, before: Generation) -> bool:
        """New workers are there at once, but until it has settled the old ones accept too: not until every
        one of them is shutting down does each answer come from the new configuration."""
        if any(_accepts(child) and processes.parent(child) == before.pid for child in before.workers):
            return False
        return any(_accepts(child) for child in processes.children(before.pid, living=False) - before.workers)


def _accepts(pid: int) -> bool:
    title = processes.title(pid)
    return WORKER in title and LEAVING not in title
