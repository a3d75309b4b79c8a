"""One agent process and its channel, spoken to line by line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Self

from agents import wire
from panel.remote import bundle


class AgentError(Exception):
    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data["message"])
        self.code = data["code"]
        self.message = data["message"]
        self.detail = data["detail"]


class AgentProcess:
    """`python` may be any from 3.8 on. `fault` is a fault point (agents/host/faults.py)."""

    def __init__(
        self, path: Path, state: Path, *, python: str = sys.executable, fault: str = "", user: str | None = None
    ) -> None:
        self.argv = bundle.argv(python, str(path))
        env = {"PATH": os.environ["PATH"], "PADDOCK_AGENT_STATE": str(state)}
        if fault:
            env.update(PADDOCK_AGENT_TEST="1", PADDOCK_AGENT_FAULT=fault)
        self.env = env
        self.errors: IO[bytes] | None = None  # what its standard error goes to, when that is wanted
        self.state = state
        self.user = user
        self._next = 0

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=self.env,
            cwd="/",
            user=self.user,
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        self.ready = self.receive()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.output.close()

    def send(self, op: str, args: dict[str, Any] | None = None) -> str:
        """Sends a request and returns its id."""
        self._next += 1
        self.send_line(wire.encode({"v": wire.VERSION, "id": str(self._next), "op": op, "args": args or {}}))
        return str(self._next)

    def send_line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next message; EOFError when the agent is gone."""
        line = self.output.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return wire.decode(line)

    def receive_result(self) -> dict[str, Any]:
        """The next message that is no event."""
        while True:
            message = self.receive()
            if message["type"] != "event":
                return message

    def call(self, op: str, args: dict[str, Any] | None = None, events: list[Any] | None = None) -> dict[str, Any]:
        """One request to its end; AgentError when the agent refuses it."""
        ident = self.send(op, args)
        while True:
            message = self.receive()
            assert message["id"] == ident, message
            if message["type"] == "event":
                if events is not None:
                    events.append(message["data"])
                continue
            if message["type"] == "error":
                raise AgentError(message["data"])
            data: dict[str, Any] = message["data"]
            return data
