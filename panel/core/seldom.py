"""Logging filter for loggers that repeat messages many times per second."""

from __future__ import annotations

import logging
import time


class SeldomFilter(logging.Filter):
    """Logging filter that passes one record per level in `seconds` seconds.
    The record names the number of similar records that were dropped since the last one.
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
