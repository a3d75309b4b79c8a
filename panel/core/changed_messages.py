"""Log messages of work that is repeated every few seconds or minutes: a lasting problem is logged only once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable


class ChangedMessages:
    """Logger of lasting problems: logs the problem of a subject once, and again only after its text changed or it was
    solved.

    Each process remembers its own messages, so every worker process logs a problem once.
    """

    def __init__(self, logger: logging.Logger, level: int = logging.WARNING) -> None:
        self._logger, self._level = logger, level
        self._lock = threading.Lock()
        self._texts: dict[Hashable, str] = {}

    def problem(self, subject: Hashable, text: str) -> None:
        with self._lock:
            is_new = self._texts.get(subject) != text
            self._texts[subject] = text
        if is_new:
            self._logger.log(self._level, "%s", text)

    def solved(self, subject: Hashable) -> None:
        with self._lock:
            self._texts.pop(subject, None)
