"""A private PostgreSQL: its own data folder, port and Unix socket; gone when the tests are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

from tests.support.ports import free_port
from tests.support.process import ServerProcess, tool


def _binary(name: str) -> str:
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    return str(versions[-1]) if versions else tool(name)


def _as_unprivileged(argv: list[str]) -> list[str]:
    """PostgreSQL refuses to run as root; Debian's package makes the account that it runs as."""
    return (
        [tool("setpriv"), "--reuid=postgres", "--regid=postgres", "--clear-groups", *argv]
        if os.geteuid() == 0
        else argv
    )


class Postgres:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = free_port()
        root.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(root, "postgres", "postgres")
        self.data = root / "data"
        argv = [_binary("postgres"), "-D", str(self.data), "-p", str(self.port), "-h", "127.0.0.1", "-k", str(root)]
        # The data is thrown away: no need to wait for the disk.
        fast = ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]
        self.process = ServerProcess(_as_unprivileged([*argv, *fast]), root.parent / f"{root.name}.log")

    @property
    def url(self) -> str:
        """For PADDOCK_DATABASE_URL."""
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> Self:
        argv = [_binary("initdb"), "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        argv += ["--locale=C.UTF-8"]
        subprocess.run(_as_unprivileged(argv), check=True, capture_output=True, stdin=subprocess.DEVNULL, cwd="/")
        self.process.start()
        self.process.wait_for_port(self.port)
        return self

    def stop(self) -> None:
        self.process.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
