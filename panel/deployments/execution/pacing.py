"""Limit how many transactions with hosts this process has open at the same time.

If hundreds of hosts respond at the same moment, the process handles their responses for seconds, and every other
deployment waits that long: with 600 hosts, another team's change of one site took 7 s instead of 0.15 s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

MOST = 48
# A host that takes longer keeps only itself busy, so it no longer counts.
COUNTED_S = 1.0


class Pace:
    """Register of the transactions that were sent in the last `counted_s` seconds and have not ended, by deployment id.
    `most` limits their number. Thread-safe.
    """

    def __init__(self, most: int = MOST, counted_s: float = COUNTED_S) -> None:
        self._most, self._counted_s = most, counted_s
        self._sent: dict[int, float] = {}  # in the order of sending
        self._lock = threading.Lock()

    def has_room(self) -> bool:
        """Return whether another transaction can be sent now without exceeding the limit."""
        with self._lock:
            self._forget_old()
            return len(self._sent) < self._most

    def sent(self, pk: int) -> None:
        """Count the transaction of the deployment with the id `pk` from now on."""
        with self._lock:
            self._sent[pk] = time.monotonic()

    def ended(self, pks: Iterable[int]) -> None:
        """Stop counting the transactions of these deployments."""
        with self._lock:
            for pk in pks:
                self._sent.pop(pk, None)

    def _forget_old(self) -> None:
        oldest = time.monotonic() - self._counted_s
        for pk, at in list(self._sent.items()):
            if at > oldest:
                return
            del self._sent[pk]


pace = Pace()
