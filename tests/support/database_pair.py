"""Two PostgreSQL servers, a primary and a standby that every commit waits for, on a network of their own each."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Self

from tests.support.namespace_hosts import ip
from tests.support.postgres import Postgres
from tests.support.process import tool
from tests.support.waiting import eventually


class DatabasePair:
    """The primary is in a network namespace, so that it can vanish as if its power failed. Needs root and iproute2."""

    def __init__(self, root: Path, copy_of: Path | None = None) -> None:
        """The primary begins with `copy_of` (tests/support/postgres.py)."""
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o755)
        number = os.getpid() % 250
        self.namespace, self.link = f"pddb{os.getpid()}", f"pddb{os.getpid() % 100000}"
        here, there = f"10.99.{number}.1", f"10.99.{number}.2"
        self._networks(here, there)
        inside = [tool("ip"), "netns", "exec", self.namespace]
        options = {"synchronous_commit": "on", "wal_level": "replica"}
        self.primary = Postgres(root / "primary", there, inside, options, copy_of)
        self.standby = Postgres(root / "standby", here)

    def _networks(self, here: str, there: str) -> None:
        ip("netns", "add", self.namespace)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        ip("address", "add", f"{here}/24", "dev", self.link)
        ip("link", "set", self.link, "up")
        for words in (f"address add {there}/24 dev eth0", "link set eth0 up", "link set lo up"):
            ip("-n", self.namespace, *words.split())

    @property
    def url(self) -> str:
        """For PADDOCK_DATABASE_URL: both servers."""
        hosts = ",".join(f"{server.address}:{server.port}" for server in (self.primary, self.standby))
        return f"postgres://postgres@{hosts}/postgres"

    def start(self) -> Self:
        self.primary.start()
        self.standby.start_as_standby(self.primary)
        self.primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.query("SELECT pg_reload_conf()")
        states = "SELECT sync_state FROM pg_stat_replication"
        assert eventually(lambda: self.primary.query(states) == "sync"), self.primary.process.said()
        return self

    def kill_primary(self) -> None:
        """End the primary and all its sessions without a checkpoint, as an administrator would not."""
        self.primary.process.stop(sig=signal.SIGQUIT)

    def cut_primary(self) -> None:
        """Let the primary vanish from the network: no packet arrives there, and none comes back."""
        ip("-n", self.namespace, "link", "set", "eth0", "down")

    def promote(self) -> None:
        self.standby.query("SELECT pg_promote()")

    def stop(self) -> None:
        self.standby.stop()
        self.primary.process.stop(sig=signal.SIGQUIT)
        ip("netns", "delete", self.namespace)
        subprocess.run([tool("ip"), "link", "delete", self.link], capture_output=True)
