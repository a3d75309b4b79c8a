"""Listening sockets as the kernel lists them, by netlink and by /proc."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from agents.host import listening_sockets
from agents.host.listening_sockets import Listening

PLACES = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET6, "::")]


@pytest.fixture
def opened() -> Iterator[set[Listening]]:
    """Sockets that listen on three addresses, and one connection to the first."""
    found = set()
    with ExitStack() as ended:
        for family, address in PLACES:
            server = ended.enter_context(socket.socket(family))
            server.bind((address, 0))
            server.listen()
            port = server.getsockname()[1]
            found.add(Listening(address, port, str(os.fstat(server.fileno()).st_ino)))
            if address == "127.0.0.1":
                ended.enter_context(socket.create_connection((address, port)))
                ended.enter_context(server.accept()[0])
        yield found


def test_sockets_are_listed_with_address_port_and_inode(opened: set[Listening]) -> None:
    found = listening_sockets.listening()
    assert opened <= set(found)
    ports = {item.port for item in opened}
    assert {item for item in found if item.port in ports} == opened
    assert {item.inode for item in opened} <= listening_sockets.inodes()


def test_sockets_are_listed_where_the_kernel_has_no_netlink(
    opened: set[Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening_sockets, "NETLINK_SOCK_DIAG", 31)  # not a protocol of netlink
    with pytest.raises(OSError):
        list(listening_sockets._from_netlink(socket.AF_INET))
    assert opened <= set(listening_sockets.listening())


def test_many_sockets_are_listed_whole() -> None:
    """More than the kernel returns in one message."""
    with ExitStack() as ended:
        opened = [ended.enter_context(socket.socket()) for _ in range(700)]
        for server in opened:
            server.bind(("127.0.0.1", 0))
            server.listen()
        assert {str(os.fstat(server.fileno()).st_ino) for server in opened} <= listening_sockets.inodes()
