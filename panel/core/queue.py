"""Queue of embedded mode: kombu's folder of messages, with atomic message files."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """Channel with atomic message files. kombu creates a file under its final name and fills it afterwards; a worker
    that read in between got an empty message, stopped, and lost the message.
    """

    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]
        folder, name = Path(self.data_folder_out), f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}"
        part = folder / f"{name}.part"
        try:
            part.write_text(dumps(payload), encoding="utf-8")
            part.rename(folder / f"{name}.{queue}.msg")
        except OSError as error:
            raise ChannelError(f"Cannot add a message to the folder {folder}: {error.strerror}.") from error


class Transport(filesystem.Transport):
    Channel = Channel
