"""Run a function for many hosts, several at once, in threads, so that an unresponsive host does not
delay the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from django.db import connection

from panel.hosts.authorities import with_authorities

logger = logging.getLogger(__name__)


def sweep_hosts(work: Callable[[int], bool], hosts: Iterable[int], *, until: float, at_once: int, failure: str) -> int:
    """Call `work` with the primary key of each host, `at_once` hosts at a time. Return the number of calls that
    returned True.

    No call begins after `until` (time.monotonic). An exception does not end the sweep. It is logged with the message
    `failure`, which contains %s for the primary key.
    """

    def quietly(pk: int) -> bool:
        try:
            return time.monotonic() < until and work(pk)
        except Exception:
            logger.exception(failure, pk)
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(at_once, thread_name_prefix="hosts") as threads:
        return sum(threads.map(with_authorities(quietly), hosts))
