"""Control nginx: a master process, and workers whose process titles show whether they accept connections.

https://nginx.org/en/docs/control.html
"""

from __future__ import annotations

import os
import signal

from agents.host import processes
from agents.host.engines.base import Engine, Generation, is_of

WORKER = "worker process"
LEAVING = "shutting down"


class Server(Engine):
    stop_signal = "QUIT"  # finishes current requests
    first_look_s = 0.004  # it reads the configuration and starts workers

    def test_argv(self, main_config: str, prefix: str) -> list[str]:
        return [self.binary, "-t", "-q", "-p", prefix, "-c", main_config]

    def start_argv(self) -> list[str]:
        return [self.binary, "-p", self.prefix, "-c", self.main_config]

    def is_failure(self, line: str, pid: int) -> bool:
        """Return whether a line of the error log reports that the master process `pid` could not load the
        configuration.

        A configuration that passed the test can still fail, for example to bind a port. The master process then reports
        this and keeps the old configuration.
        """
        return is_of(line, pid, "emerg")

    def has_workers(self) -> bool:
        return any(WORKER in processes.title(child) for child in processes.children(self.pid()))

    def is_replaced(self, before: Generation) -> bool:
        """Return whether only new workers accept connections.

        New workers start at once, but old workers also accept connections until they begin to shut down. After that,
        every response comes from the new configuration.
        """
        if not _ready(before):
            return False
        # Process ids may be reused.
        return not any(_accepts(child) and processes.parent(child) == before.pid for child in before.workers)

    def relieve(self, before: Generation) -> bool:
        """Tell the old workers to exit once enough new workers accept connections. Return True only if this call told
        them.

        nginx keeps old workers for 100 ms after it has started new ones, which are ready after about 1 ms. QUIT is the
        signal that nginx itself sends to the old workers later, and the documented signal for a single worker.

        nginx does not replace workers that exit earlier: it processes no signal between the first new worker and the
        end of the 100 ms, and afterwards it has told all old workers to exit (ngx_master_process_cycle). If there are
        fewer new than old workers, they may not be the result of the reload, and this call does nothing.
        """
        ready = [] if before.relieved else _ready(before)
        if not ready:  # the usual case, and the cheapest check
            return False
        titles = {child: processes.title(child) for child in before.workers}
        if not all(titles.values()) or any(LEAVING in title for title in titles.values()):
            return False
        old = [child for child, title in titles.items() if WORKER in title and processes.parent(child) == before.pid]
        if len(ready) < len(old):
            return False
        before.relieved = True
        try:
            for child in old:
                os.kill(child, signal.SIGQUIT)
        except OSError:  # nginx tells the workers itself later
            return False
        return True


def _ready(before: Generation) -> list[int]:
    """Return the ids of the new workers that accept connections."""
    return [child for child in processes.children(before.pid, living=False) - before.workers if _accepts(child)]


def _accepts(pid: int) -> bool:
    title = processes.title(pid)
    return WORKER in title and LEAVING not in title
