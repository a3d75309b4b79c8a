"""An HTTP/3 client on aioquic, without an event loop: one socket, exchanged when the client moves."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent
from aioquic.quic.logger import QuicLogger
from aioquic.tls import SessionTicket

NAME = "example.org"
TIMEOUT_S = 60.0


class Ended(Exception):
    """The server ended the connection."""


@dataclass
class Answer:
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False

    @property
    def status(self) -> int:
        return int(self.headers.get(":status", "0"))


class Client:
    """A connection to gallop on loopback, whose certificate must be the one in `trust`.

    `ticket`: of an earlier connection, so that requests may go out with the first packets; `token`: spares a Retry;
    `other`: more of aioquic's configuration.
    """

    def __init__(
        self, port: int, trust: Path, *, ticket: SessionTicket | None = None, token: bytes = b"", **other: Any
    ) -> None:
        self._log = QuicLogger()
        configuration = QuicConfiguration(
            is_client=True,
            alpn_protocols=H3_ALPN,
            server_name=NAME,
            cafile=str(trust),
            session_ticket=ticket,
            token=token,
            quic_logger=self._log,
            **other,
        )
        self.tickets: list[SessionTicket] = []
        self.tokens: list[bytes] = []
        self.answers: dict[int, Answer] = {}
        self.handshake: HandshakeCompleted | None = None
        self.ended: ConnectionTerminated | None = None
        self.quic = QuicConnection(
            configuration=configuration,
            session_ticket_handler=self.tickets.append,
            token_handler=self.tokens.append,
        )
        self._server = ("127.0.0.1", port)
        self._authority = f"{NAME}:{port}"
        self._socket = self._new_socket()
        self.quic.connect(self._server, now=time.monotonic())
        self._h3 = H3Connection(self.quic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.quic.close()
        self._send()
        self._socket.close()

    @staticmethod
    def _new_socket() -> socket.socket:
        new = socket.socket(type=socket.SOCK_DGRAM)
        new.bind(("127.0.0.1", 0))
        return new

    def ask(self, path: str, *, method: str = "GET", body: bytes = b"", headers: Sequence[tuple[str, str]] = ()) -> int:
        """Queues a request; its stream."""
        stream = self.quic.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", "https"), (":authority", self._authority), (":path", path)]
        fields += [("content-length", str(len(body)))] if body else []
        encoded = [(name.encode(), value.encode()) for name, value in [*fields, *headers]]
        self.answers[stream] = Answer()
        self._h3.send_headers(stream, encoded, end_stream=not body)
        if body:
            self._h3.send_data(stream, body, end_stream=True)
        return stream

    def get(self, path: str, **how: Any) -> Answer:
        """Asks and waits for the whole answer."""
        return self.finish([self.ask(path, **how)])[0]

    def finish(self, streams: Sequence[int]) -> list[Answer]:
        """The whole answers on these streams."""
        found = [self.answers[stream] for stream in streams]
        self.run(lambda: all(answer.ended for answer in found))
        return found

    def run(self, done: Callable[[], bool]) -> None:
        """Sends and receives until `done`. Raises Ended when the connection does before, AssertionError when nothing
        comes of it."""
        deadline = time.monotonic() + TIMEOUT_S
        self._send()
        while not done():
            if self.ended is not None:
                raise Ended(self.ended)
            assert time.monotonic() < deadline, f"no answer in {TIMEOUT_S} s"
            self._receive()
            self._send()

    def move(self) -> None:
        """Goes on from another port, with another connection id, as RFC 9000 (section 9.5) wants."""
        self._socket.close()
        self._socket = self._new_socket()
        self.quic.change_connection_id()

    def end(self) -> tuple[bytes, bytes]:
        """Closes the connection: the server's id for it, and the token that proves a stateless reset of it."""
        peer = self.quic._peer_cid  # aioquic tells nobody else
        self.quic.close()
        self._send()
        return peer.cid, peer.stateless_reset_token

    def exchange(self, datagram: bytes) -> bytes:
        """Sends one past aioquic; the next one that comes within a second, or nothing."""
        self._socket.sendto(datagram, self._server)
        self._socket.settimeout(1.0)
        try:
            return self._socket.recv(65_536)
        except TimeoutError:
            return b""

    def saw(self, name: str, **data: object) -> bool:
        """Whether aioquic's own log (qlog) has such an event: "transport:packet_received" with packet_type="retry"."""
        events = [event for trace in self._log.to_dict()["traces"] for event in trace["events"]]
        return any(
            event["name"] == name
            and all(
                str(value) in str(event["data"].get(key, event["data"].get("header", {}).get(key)))
                for key, value in data.items()
            )
            for event in events
        )

    def _send(self) -> None:
        for datagram, address in self.quic.datagrams_to_send(now=time.monotonic()):
            self._socket.sendto(datagram, address)

    def _receive(self) -> None:
        timer = self.quic.get_timer()
        left = 1.0 if timer is None else min(max(timer - time.monotonic(), 0.0), 1.0)
        self._socket.settimeout(left + 0.001)
        try:
            datagram, _ = self._socket.recvfrom(65_536)
            self.quic.receive_datagram(datagram, self._server, now=time.monotonic())
        except TimeoutError:
            if timer is not None and timer <= time.monotonic():
                self.quic.handle_timer(now=time.monotonic())
        while (event := self.quic.next_event()) is not None:
            self._take(event)

    def _take(self, event: QuicEvent) -> None:
        if isinstance(event, HandshakeCompleted):
            self.handshake = event
        if isinstance(event, ConnectionTerminated):
            self.ended = event
        for told in self._h3.handle_event(event):
            if isinstance(told, HeadersReceived):
                answer = self.answers[told.stream_id]
                answer.headers |= {name.decode(): value.decode() for name, value in told.headers}
                answer.ended |= told.stream_ended
            elif isinstance(told, DataReceived):
                answer = self.answers[told.stream_id]
                answer.body += told.data
                answer.ended |= told.stream_ended
