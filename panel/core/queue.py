"""The queue of embedded mode: kombu's folder of messages, in which a message is whole as soon as it can be seen."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """kombu makes a message's file under its own name and fills it afterwards: a worker that looked in between took an
    empty message, which ended it and lost the message."""

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
