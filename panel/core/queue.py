"""Queue of embedded mode: a kombu transport that keeps each message in a file of a private folder.

kombu's own filesystem transport makes a message visible before it is written. A worker that reads it in between ends
with an error and loses the message. This transport writes the file under another name and renames it. kombu documents
the four methods that a virtual channel has to provide: `_put`, `_get`, `_size` and `_purge`.
"""

from __future__ import annotations

import time
from pathlib import Path
from queue import Empty
from typing import Any
from uuid import uuid4

from kombu.transport import virtual
from kombu.utils.json import dumps, loads

SUFFIX = ".json"


def uses_redis(app: Any) -> bool:
    """Return whether the Celery app has its queue in Redis (cluster mode)."""
    return str(app.conf.broker_url).startswith("redis")


class Channel(virtual.Channel):
    """kombu channel with one folder per queue, in the folder of the transport option `folder`. File names of messages
    begin with the time, so that the oldest message is read first.
    """

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        folder, name = self._folder(queue), f"{time.time_ns():020}-{uuid4().hex}"
        draft = folder / f"{name}.draft"
        draft.write_text(dumps(message), encoding="utf-8")
        draft.rename(folder / f"{name}{SUFFIX}")

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        for path in self._messages(queue):
            taken = path.with_suffix(".taken")
            try:
                path.rename(taken)
            except FileNotFoundError:  # another worker took it first
                continue
            content = taken.read_text(encoding="utf-8")
            taken.unlink()
            return loads(content)
        raise Empty

    def _size(self, queue: str) -> int:
        return len(self._messages(queue))

    def _purge(self, queue: str) -> int:
        messages = self._messages(queue)
        for path in messages:
            path.unlink(missing_ok=True)
        return len(messages)

    def _messages(self, queue: str) -> list[Path]:
        return sorted(path for path in self._folder(queue).iterdir() if path.suffix == SUFFIX)

    def _folder(self, queue: str) -> Path:
        client = self.connection.client
        assert client is not None and client.transport_options is not None  # while the channel is open
        folder = Path(client.transport_options["folder"]) / queue
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


class Transport(virtual.Transport):
    """kombu transport of the queue in a folder; the setting CELERY_BROKER_TRANSPORT names it."""

    Channel = Channel
    driver_type = driver_name = "folder"

    def driver_version(self) -> str:
        return "1"
