"""Control nginx: a master process, and workers that show their state in their process titles.

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
        """Return whether a line of the error log reports a failed bind.

        A tested configuration can still fail to bind; the master then reports this and keeps the old configuration.
        """
        return is_of(line, pid, "emerg")

    def has_workers(self) -> bool:
        return any(WORKER in processes.title(child) for child in processes.children(self.pid()))

    def is_replaced(self, before: Generation) -> bool:
        """Return whether only new workers accept connections.

        New workers start at once, but old ones accept until they are shutting down; only then does every response come
        from the new configuration.
        """
        if not _ready(before):
            return False
        # Process ids may be reused.
        return not any(_accepts(child) and processes.parent(child) == before.pid for child in before.workers)

    def relieve(self, before: Generation) -> bool:
        """Tell the old workers to exit; return whether this was done now.

        nginx keeps old workers for 100 ms after starting new ones, which are ready after about 1 ms. QUIT is the signal
        that nginx itself sends to the old workers later, and the documented signal for a single worker.

        nginx does not replace workers that exit earlier. Between the first new worker and the end of the 100 ms nginx
        processes no signal, and afterwards it has told all old workers to exit (ngx_master_process_cycle). The new
        workers must result from the reload, not from the end of an old worker.
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
