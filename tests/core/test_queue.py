"""The queue of embedded mode: a worker reads complete messages only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty

import pytest
from kombu import Connection

from panel.core.queue import Channel

TRANSPORT = "panel.core.queue:Transport"
MESSAGES = 500


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with Connection("folder://localhost/", transport=TRANSPORT, transport_options={"folder": str(tmp_path)}) as made:
        yield made


def test_worker_reads_whole_messages_while_others_write(connection: Connection) -> None:
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


def test_message_is_taken_by_one_of_two_workers(connection: Connection) -> None:
    channels = [connection.channel(), connection.channel()]
    for number in range(MESSAGES):
        channels[0]._put("celery", {"number": number})
    found: list[int] = []

    def read(channel: Channel) -> None:
        with suppress(Empty):
            while True:
                found.append(channel._get("celery")["number"])

    threads = [threading.Thread(target=read, args=(channel,)) for channel in channels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(MESSAGES))


def test_messages_come_in_the_order_in_which_they_were_sent(connection: Connection) -> None:
    queue = connection.SimpleQueue("celery")
    for number in range(20):
        queue.put({"number": number})
    assert queue.qsize() == 20
    assert [queue.get(timeout=5).payload["number"] for _ in range(20)] == list(range(20))
    queue.put({"number": 21})
    assert queue.clear() == 1
    with pytest.raises(Empty):
        queue.get(block=False)


def test_message_is_readable_by_its_owner_alone(connection: Connection, tmp_path: Path) -> None:
    connection.channel()._put("celery", {})
    assert (tmp_path / "celery").stat().st_mode & 0o777 == 0o700
