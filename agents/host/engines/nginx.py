"""nginx: a master process and workers that write what they are into their titles.

https://nginx.org/en/docs/control.html
"""

from __future__ import annotations

import os

from agents.host import lean, processes
from agents.host.engines.base import Engine, Generation, is_of

WORKER = "worker process"
LEAVING = "shutting down"


class Server(Engine):
    stop_signal = "QUIT"  # finishes the requests that it has
    first_look_s = 0.004  # it reads its configuration and starts workers

    def test_argv(self, main_config: str, prefix: str) -> list[str]:
        return [self.binary, "-t", "-q", "-p", prefix, "-c", main_config]

    def start_argv(self) -> list[str]:
        return [self.binary, "-p", self.prefix, "-c", self.main_config]

    def is_failure(self, line: str, pid: int) -> bool:
        """A configuration that passes the test can still fail to bind: the master says so and keeps what it had."""
        return is_of(line, pid, "emerg")

    def has_workers(self) -> bool:
        return any(WORKER in processes.title(child) for child in processes.children(self.pid()))

    def is_replaced(self, before: Generation) -> bool:
        """New workers are there at once, but as long as the old ones have not left they accept too: not until every
        one of them is shutting down does each answer come from the new configuration."""
        if not _ready(before):
            return False
        # A number may be another process's by now.
        return not any(_accepts(child) and processes.parent(child) == before.pid for child in before.workers)

    def relieve(self, before: Generation) -> bool:
        """nginx leaves the old workers where they are for 100 ms after it has started the new ones, which need a
        hundredth of that. QUIT is what it tells them then, and what its documentation has for one worker.

        It starts none in place of those that leave sooner: from the first new worker to the end of these 100 ms no
        signal reaches it, and then it has told all the old ones to leave (ngx_master_process_cycle). That there are
        new ones must follow from the reload: where one of the old has ended by itself it need not.
        """
        ready = [] if before.relieved else _ready(before)
        if not ready:  # mostly so: asked first, since it costs least
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
                os.kill(child, lean.number("QUIT"))
        except OSError:  # nginx will tell them
            return False
        return True


def _ready(before: Generation) -> list[int]:
    """The workers that came after those of before and take connections."""
    return [child for child in processes.children(before.pid, living=False) - before.workers if _accepts(child)]


def _accepts(pid: int) -> bool:
    title = processes.title(pid)
    return WORKER in title and LEAVING not in title
