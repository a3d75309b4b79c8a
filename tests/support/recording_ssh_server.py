"""An SSH server that writes down every attempt to authenticate, and lets nobody in."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import paramiko


class Recorder(paramiko.ServerInterface):
    """An impostor that writes down every attempt to authenticate."""

    def __init__(self) -> None:
        self.attempts: list[str] = []

    def get_allowed_auths(self, username: str) -> str:
        self.attempts.append(f"asked as {username}")
        return "publickey,password"

    def check_auth_password(self, username: str, password: str) -> int:
        self.attempts.append(password)
        return paramiko.common.AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.attempts.append(key.get_base64())
        return paramiko.common.AUTH_FAILED

    def check_auth_none(self, username: str) -> int:
        self.attempts.append(f"none as {username}")
        return paramiko.common.AUTH_FAILED


@contextmanager
def impostor_running() -> Iterator[tuple[int, Recorder]]:
    """Its port, and what it recorded."""
    recorder = Recorder()
    listener = socket.create_server(("127.0.0.1", 0))
    host_key = paramiko.ECDSAKey.generate()

    def serve() -> None:
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(stream)
            transport.add_server_key(host_key)
            try:
                transport.start_server(server=recorder)
            except (paramiko.SSHException, EOFError, OSError):  # who is told of another key hangs up
                continue

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1], recorder
    finally:
        listener.close()
