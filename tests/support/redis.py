"""A private Redis on a port of its own; nothing is kept on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tests.support.ports import free_port
from tests.support.process import ServerProcess, tool


class Redis:
    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        argv = [tool("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(root)]
        argv += ["--save", "", "--appendonly", "no", "--databases", "256"]
        self.process = ServerProcess(argv, root / "redis.log")

    @property
    def url(self) -> str:
        """For PADDOCK_REDIS_URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        self.process.start()
        self.process.wait_for_port(self.port)
        return self

    def stop(self) -> None:
        self.process.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
