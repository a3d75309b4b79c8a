"""Location of a host's agent and the connection data, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Target:
    """A target. `name` is for messages. Secrets are excluded from the representation, so that logs and traces do not
    contain them.

    local: the agent is a child process; its file is in `folder`, its journal in `folder`/state. ssh: `host_key` is the
    pinned key line ("ssh-ed25519 AAAA..."); "" means that nothing may be sent yet. `via` is the bastion through which
    the host is reached.
    """

    name: str
    kind: Literal["local", "ssh"]
    folder: Path | None = None
    address: str = ""
    port: int = 22
    username: str = ""
    private_key: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    sudo: bool = False
    sudo_password: str = field(default="", repr=False)
    host_key: str = ""
    via: Target | None = None

    @property
    def endpoint(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port}"

    def passes(self, name: str) -> bool:
        """Return whether this is the target of that name, or is reached through it."""
        return self.name == name or (self.via is not None and self.via.passes(name))
