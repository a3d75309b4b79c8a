"""Embedded mode's queue: what a worker finds in the folder is a whole message."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import Empty

from kombu import Connection

TRANSPORT = "panel.core.queue:Transport"
MESSAGES = 500


def test_reader_gets_whole_messages_during_writes(tmp_path: Path) -> None:
    folders = {name: str(tmp_path / name) for name in ("messages", "control")}
    options = {"data_folder_in": folders["messages"], "data_folder_out": folders["messages"]}
    options |= {"control_folder": folders["control"]}
    for folder in folders.values():
        Path(folder).mkdir()
    with Connection("filesystem://localhost/", transport=TRANSPORT, transport_options=options) as connection:
        reader, writer = connection.channel(), connection.channel()

        def write() -> None:
            for number in range(MESSAGES):
                writer._put("celery", {"number": number})

        thread = threading.Thread(target=write)
        thread.start()
        found: list[int] = []
        while len(found) < MESSAGES:
            is_over = not thread.is_alive()  # whatever comes is there by now
            try:
                found.append(reader._get("celery")["number"])
            except Empty:
                assert not is_over, f"{MESSAGES - len(found)} messages are lost"
        thread.join()
    assert sorted(found) == list(range(MESSAGES))
