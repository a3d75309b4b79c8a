"""A private PostgreSQL: its own data folder, port and Unix socket; gone when the tests are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.ports import free_port
from tests.support.process import ServerProcess, tool
from tests.support.waiting import eventually


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
    """`address` and `inside` place it on a network of its own; `options` are further settings of the server.

    `copy_of` is the data folder of a stopped server, which it begins with a copy of; without one it begins empty.
    """

    def __init__(
        self,
        root: Path,
        address: str = "127.0.0.1",
        inside: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        copy_of: Path | None = None,
    ) -> None:
        self.root, self.address, self.copy_of = root, address, copy_of
        self.port = free_port()
        root.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(root, "postgres", "postgres")
        self.data = root / "data"
        argv = [_binary("postgres"), "-D", str(self.data), "-p", str(self.port), "-h", address, "-k", str(root)]
        # The data is thrown away: no need to wait for the disk.
        fast = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        argv += [word for name, value in (fast | dict(options or {})).items() for word in ("-c", f"{name}={value}")]
        self.process = ServerProcess([*inside, *_as_unprivileged(argv)], root.parent / f"{root.name}.log")

    @property
    def url(self) -> str:
        """For PADDOCK_DATABASE_URL."""
        return f"postgres://postgres@{self.address}:{self.port}/postgres"

    def start(self) -> Self:
        if not (self.data / "PG_VERSION").exists():  # a kept folder has one
            self._make_data()
        if self.address != "127.0.0.1":
            with (self.data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\nhost replication all samenet trust\n")
        self.process.start()
        self.process.wait_for_port(self.port, address=self.address)
        return self

    def _make_data(self) -> None:
        if self.copy_of:
            subprocess.run([tool("cp"), "--archive", str(self.copy_of), str(self.data)], check=True)
            return
        argv = [_binary("initdb"), "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        self.run([*argv, "--locale=C.UTF-8"])

    def start_as_standby(self, primary: Postgres) -> Self:
        """Copy the primary, and follow it by streaming replication."""
        assert eventually(primary.is_ready), primary.process.said()
        argv = [_binary("pg_basebackup"), "-D", str(self.data), "-h", primary.address, "-p", str(primary.port)]
        self.run([*argv, "-U", "postgres", "-R", "-X", "stream", "-c", "fast", "--no-sync"])
        self.process.start()
        self.process.wait_for_port(self.port, address=self.address)
        return self

    def is_ready(self) -> bool:
        """Return whether it accepts sessions: it listens a moment before."""
        argv = [_binary("pg_isready"), "-q", "-h", self.address, "-p", str(self.port)]
        return subprocess.run(argv, stdin=subprocess.DEVNULL).returncode == 0

    def query(self, sql: str) -> str:
        argv = [_binary("psql"), "-h", self.address, "-p", str(self.port), "-U", "postgres", "-Atc", sql, "postgres"]
        return self.run(argv).strip()

    def run(self, argv: list[str]) -> str:
        done = subprocess.run(_as_unprivileged(argv), capture_output=True, stdin=subprocess.DEVNULL, cwd="/", text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self) -> None:
        self.process.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
