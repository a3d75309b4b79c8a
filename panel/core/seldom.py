"""Logging filter for loggers that repeat messages many times per second."""

from __future__ import annotations

import logging
import time


class SeldomFilter(logging.Filter):
    """Logging filter that passes at most one record per level every `seconds` seconds, with the number of records
    dropped before it.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self._passed: dict[int, float] = {}
        self._dropped: dict[int, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._passed.get(record.levelno, -self.seconds) < self.seconds:
            self._dropped[record.levelno] = self._dropped.get(record.levelno, 0) + 1
            return False
        self._passed[record.levelno] = now
        if dropped := self._dropped.pop(record.levelno, 0):
            record.msg, record.args = f"{record.getMessage()} (and {dropped} similar messages)", ()
        return True
