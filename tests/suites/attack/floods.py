"""Broken and greedy clients, against any web server on loopback: short, bounded, and counted.

After each of them a well-behaved client must still be answered, and the server's memory must stay within a bound.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
# :method GET, :scheme http, :path / of the static table (RFC 7541 appendix A); the authority as a literal.
REQUEST = b"\x82\x86\x84\x41\x09localhost"
BROKEN = (
    *(b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 512, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    *(b"GET / HTTP/1.1\nHost a\n\n", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", b"GET http:// HTTP/1.1\r\nHost: a\r\n\r\n"),
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nx",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"x" * 70_000,
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(5000)) + b"\r\n",
    *(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 2_000_000, b"GET /" + b"a" * 2_000_000, b"\x16\x03\x01\x02\x00\x01"),
)


@dataclass
class Target:
    """A server to attack: `port`, a path that answers 200 and the processes whose memory counts."""

    name: str
    port: int
    path: str
    pids: Callable[[], list[int]]
    growth_mb: int
    findings: list[str] = field(default_factory=list)
    attacks: set[str] = field(default_factory=set)
    requests: int = 0


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def http2_attacks(seed: int) -> Iterator[tuple[str, bytes]]:
    """(name, what follows the preface and an empty SETTINGS)."""
    rand = random.Random(seed)
    streams = range(1, 2001, 2)
    yield "rapid reset", b"".join(frame(HEADERS, 5, s, REQUEST) + frame(RST, 0, s, b"\0\0\0\x08") for s in streams)
    yield "settings flood", frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\x64") * 5000
    yield "ping flood", frame(PING, 0, 0, b"12345678") * 5000
    yield "continuation flood", frame(HEADERS, 1, 1, REQUEST) + frame(CONTINUATION, 0, 1, b"\x40\x01a\x01b" * 500) * 500
    yield "empty continuation flood", frame(HEADERS, 1, 1, REQUEST) + frame(CONTINUATION, 0, 1) * 20_000
    yield "window overflow", frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff") * 3
    yield "window of zero", frame(HEADERS, 5, 1, REQUEST) + frame(WINDOW, 0, 1, b"\0\0\0\0")
    yield "settings of the wrong length", frame(SETTINGS, 0, 0, b"abc")
    yield "frame larger than allowed", frame(DATA, 0, 1, b"x" * 70_000)
    yield "data before headers", frame(DATA, 1, 1, b"x")
    yield "even stream", frame(HEADERS, 5, 2, REQUEST)
    yield "push by a client", frame(PUSH, 4, 1, b"\0\0\0\x02" + REQUEST)
    yield "hpack bomb", frame(HEADERS, 5, 1, REQUEST + b"\x40\x01a\x7f\xe1\x1e" + b"v" * 4000 + b"\xbe" * 10_000)
    yield "broken hpack", frame(HEADERS, 5, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
    yield "stream that depends on itself", frame(HEADERS, 0x25, 1, b"\0\0\0\x01\x10" + REQUEST)
    yield "priority flood", b"".join(frame(PRIORITY, 0, s, b"\0\0\0\x00\x10") for s in streams) * 3
    yield "empty data flood", frame(HEADERS, 4, 1, REQUEST) + frame(DATA, 0, 1) * 10_000
    for number in range(20):
        kind, flags, stream = rand.randrange(12), rand.randrange(256), rand.randrange(6)
        yield f"random frame {number}", frame(kind, flags, stream, rand.randbytes(rand.randrange(300)))


def resident_mb(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
            total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS:")), 0)
    return total / 1024


def family(pid: int) -> list[int]:
    """The process and its children."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
        return [pid, *(int(child) for child in text.split())]
    return [pid]


def answered(port: int, path: str, within_s: float = 30.0) -> str:
    """ "" when a usual request is answered with 200 in time, else what happened."""
    begun = time.monotonic()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=within_s) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            first = client.recv(64)
    except OSError as error:
        return f"{type(error).__name__} after {time.monotonic() - begun:.1f} s"
    return "" if first.split(b" ")[1:2] == [b"200"] else f"answered {first[:30]!r}"


def thrown(port: int, data: bytes, wait_s: float = 1.0) -> bytes:
    """Sends `data` and returns what comes back before the server closes or the time is over."""
    found = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=wait_s) as client:
        with contextlib.suppress(OSError):
            client.sendall(data)
        while len(found) < 1_000_000 and (more := client.recv(65536)):
            found += more
    return found


def slow(port: int, count: int) -> list[socket.socket]:
    """Connections that began a request and say no more."""
    found = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            client = socket.create_connection(("127.0.0.1", port), timeout=5)
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-A: ")
            found.append(client)
    return found


def greedy(port: int, path: str, megabytes: int) -> None:
    """A chunked body that nobody asked for, to a path that wants a token."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(megabytes):
            client.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")


def attack(target: Target, name: str, act: Callable[[], bytes | None], before_mb: float) -> None:
    """One attack; a fault of the server's own, silence to others or growth is a finding."""
    target.attacks.add(name)
    target.requests += 1
    found = act() or b""
    if any(line.startswith(b"HTTP/1.") and line[9:10] == b"5" and line[9:12] not in (b"501", b"505")
           for line in found.split(b"\r\n")):  # fmt: skip
        target.findings.append(f"{target.name}: {name}: {found[:60]!r}")
    if problem := answered(target.port, target.path):
        target.findings.append(f"{target.name}: after {name} a usual request {problem}")
    grown = resident_mb(target.pids()) - before_mb
    if grown > target.growth_mb:
        target.findings.append(f"{target.name}: {name}: memory grew by {grown:.0f} MB")


def http1(target: Target, before_mb: float, connections: int) -> None:
    for number, data in enumerate(BROKEN):
        attack(target, f"broken request {number}", lambda data=data: thrown(target.port, data), before_mb)  # type: ignore[misc]
    one = f"GET {target.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    attack(target, "pipelined requests", lambda: thrown(target.port, one * 500), before_mb)
    held = slow(target.port, connections)
    target.requests += len(held)
    try:
        attack(target, f"{connections} slow connections", lambda: b"", before_mb)
    finally:
        for client in held:
            client.close()


def http2(target: Target, before_mb: float, seed: int) -> None:
    for name, data in http2_attacks(seed):
        whole = PREFACE + frame(SETTINGS, 0, 0) + data
        attack(target, name, lambda whole=whole: thrown(target.port, whole, 0.5), before_mb)  # type: ignore[misc]


def is_long() -> bool:
    return os.environ.get("ATTACK") == "long"
