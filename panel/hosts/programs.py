"""Upload bundled programs, built from native/, to hosts."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

from panel.core.errors import ApplicationError
from panel.hosts.models import Host
from panel.remote.pool import Session


def upload(host: Host, agent: Session, program: Path, name: str, setting: str) -> dict[str, str]:
    """Upload a program and return {"source": its path on the host, "sha256"}, in the agent's format
    (agents/host/install.py).

    `setting` is the environment variable with which an admin can choose another program file; error messages name it.
    Raises ApplicationError if the program is not built, or not for the host's architecture.
    """
    if not program.is_file():
        raise ApplicationError(
            f"The bundled {name} is not built: {program} is missing. Run `make native`, or set the path of the "
            f"program in {setting}.",
            code="not_built",
        )
    machine = host.facts.get("machine") or platform.machine()
    if machine != platform.machine():
        raise ApplicationError(
            f"{host.name} has a {machine} CPU, but the bundled {name} is built for {platform.machine()}.",
            code="wrong_machine",
        )
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    return {"source": agent.upload(program, f"{name}-{digest}"), "sha256": digest}
