"""What a hostile machine answers with instead of an agent, and an SSH server that keeps to no rule. Programs of tests.

python hostile_host.py agent KIND     speaks as an agent on its standard streams
python hostile_host.py ssh KIND PORT  listens there
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time

MEBIBYTE = 1 << 20
HUGE = 400 * MEBIBYTE


def line_of(ident: str, kind: str, data: object) -> str:
    return json.dumps({"v": 1, "id": ident, "type": kind, "data": data}, separators=(",", ":")) + "\n"


def flood(stream: object, size: int, part: bytes = b"a" * MEBIBYTE) -> None:
    for _ in range(size // len(part)):
        stream.write(part)  # type: ignore[attr-defined]
    stream.flush()  # type: ignore[attr-defined]


def holding(text: str) -> str:
    """A result with that text as the value of a field."""
    return '{"v":1,"id":"1","type":"result","data":{"a":' + text + "}}"


LINES = {
    "nested": holding("[" * 100_000 + "]" * 100_000),
    "nested a little": holding("[" * 40 + "]" * 40),
    "digits": holding("9" * 1_000_000),
    "number": holding("9" * 30),
    "shape": '{"v":1,"id":"1","type":"result"}',
    "error": '{"v":1,"id":"1","type":"error","data":{"code":7}}',
}


def agent(kind: str) -> None:
    """Ready, and after the first request what `kind` says."""
    if kind == "preamble":
        flood(sys.stdout.buffer, HUGE)
    sys.stdout.write(line_of("", "ready", {"agent": "hostile", "python": "3", "pid": 1, "uid": 0}))
    sys.stdout.flush()
    sys.stdin.readline()
    if kind in LINES:
        sys.stdout.write(LINES[kind] + "\n")
        sys.stdout.flush()
    elif kind == "line":
        flood(sys.stdout.buffer, HUGE)
    elif kind == "events":
        line = line_of("1", "event", {"n": 1})
        flood(sys.stdout.buffer, 1_000_000 * len(line), line.encode() * 1000)
    elif kind == "stderr":
        flood(sys.stderr.buffer, HUGE)
    elif kind == "drip":
        for _ in range(10_000):
            sys.stdout.write("a")
            sys.stdout.flush()
            time.sleep(0.01)
    sys.stdin.read()


def ssh(kind: str, port: int) -> None:
    listening = socket.create_server(("127.0.0.1", port))
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=window if kind == "window" else before_keys, args=(kind, connection)).start()


def before_keys(kind: str, connection: socket.socket) -> None:
    """Before any key is exchanged: anybody on the way may say that."""
    try:
        with connection:
            if kind == "packet":
                connection.sendall(b"SSH-2.0-hostile\r\n" + struct.pack(">I", 0x7FFFFFF4))
            for _ in range(HUGE // MEBIBYTE):
                connection.sendall(b"a" * MEBIBYTE)
    except OSError:
        return


def window(_kind: str, connection: socket.socket) -> None:
    """A server that sends without asking how much it may."""
    import paramiko

    class Server(paramiko.ServerInterface):
        def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
            return paramiko.AUTH_SUCCESSFUL

        def get_allowed_auths(self, username: str) -> str:
            return "publickey"

        def check_channel_request(self, kind: str, chanid: int) -> int:
            return paramiko.OPEN_SUCCEEDED

        def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
            threading.Thread(target=pour, args=(channel,)).start()
            return True

    def pour(channel: paramiko.Channel) -> None:
        channel.sendall(line_of("", "ready", {}).encode())
        channel.recv(10)
        channel.out_window_size = 1 << 40
        try:
            while True:
                channel.sendall(b"a" * MEBIBYTE)
        except OSError:
            return

    transport = paramiko.Transport(connection)
    transport.add_server_key(paramiko.RSAKey(filename=sys.argv[4]))
    transport.start_server(server=Server())


if __name__ == "__main__":
    if sys.argv[1] == "agent":
        agent(sys.argv[2])
    else:
        ssh(sys.argv[2], int(sys.argv[3]))
