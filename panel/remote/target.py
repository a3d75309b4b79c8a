"""Plain data that describes how to reach a host's agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Target:
    """Place where an agent runs, with the keys and passwords to reach it. `name` is for messages. `repr` omits the
    secrets, so that logs and traces do not contain them.

    `kind` local: the agent is a child process; its file is in `folder`, its journal in `folder`/state.

    `kind` ssh: `host_key` is the pinned key line ("ssh-ed25519 AAAA..."). If it is "", nothing may be sent unless one
    of `authorities` signed the host key; `authorities` are public key lines too. `private_key` contains one or several
    keys, and the host must accept one of them; `authority_key` signs a new key for each connection. `via` is the
    bastion through which the host is reached, and `forwards` is true for a bastion.
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
    authorities: tuple[str, ...] = ()
    authority_key: str = field(default="", repr=False)
    forwards: bool = False
    via: Target | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names for which a host certificate may be valid: the address, and the host's name in the panel."""
        return tuple(dict.fromkeys((self.address, self.name)))

    @property
    def endpoint(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port}"

    def passes(self, name: str) -> bool:
        """Return whether a connection to the target ends at the host `name`, or passes it as a bastion."""
        return self.name == name or (self.via is not None and self.via.passes(name))
