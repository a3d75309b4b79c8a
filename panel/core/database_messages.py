"""Logging filter: an error because the database is unavailable becomes one line, without a traceback."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from panel.core.database import is_connection_error


class DatabaseAwayFilter(logging.Filter):
    """Logging filter that shortens records whose exception means that the database is unavailable.

    Without this filter, each background task would log a traceback every few seconds until the database is available
    again.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is not None and is_connection_error(error):
            # Celery's message about a failed task has the task's name among its arguments.
            name = record.args.get("name") if isinstance(record.args, Mapping) else None
            text = f"the task {name} did not run" if name else record.getMessage().splitlines()[0]
            record.msg, record.args = f"{text}: the database is unavailable", ()
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True
