"""Table of the agent's operations: names, and the modules that implement them, imported on first use.

    run(args: dict, emit: Callable[[dict], None], cancelled: threading.Event) -> dict

`args` is the unchecked request. `emit` sends one event and never raises, even if nobody listens. `cancelled` is set
when the panel cancels the request or its channel closes. `run` returns the result, or raises `errors.Refusal`. Every
call has its own thread.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any, Callable, Dict

Emit = Callable[[Dict[str, Any]], None]
Run = Callable[[Dict[str, Any], Emit, threading.Event], Dict[str, Any]]

MODULES = {
    "hello": "agents.host.hello",
    "facts": "agents.host.facts",
    "resources": "agents.host.resources",
    "apply": "agents.host.apply",
    "recover": "agents.host.recover",
    "status": "agents.host.status",
    "rollback": "agents.host.rollback",
    "drift": "agents.host.drift",
    "service": "agents.host.service",
    "read": "agents.host.read",
    "tail": "agents.host.tail",
    "traffic": "agents.host.traffic",
    "install": "agents.host.install",
    "bench": "agents.host.bench",
    "sample": "agents.host.sample",
    "answers": "agents.host.answers",
    "observe": "agents.host.observe",
    "preflight": "agents.host.preflight",
    "testbed": "agents.host.testbed",
    "application": "agents.host.applications",
    "fingerprint": "agents.host.fingerprint",
    "ports": "agents.host.ports",
    "empty": "agents.host.empty",
    "resolve": "agents.host.resolve",
    "log_counts": "agents.host.log_counts",
    "log_period": "agents.host.log_period",
    "content": "agents.host.content",
    "challenge_put": "agents.host.challenge_put",
    "challenge_remove": "agents.host.challenge_remove",
    "keepalived": "agents.host.keepalived",
    "fpm": "agents.host.fpm",
    "certificates": "agents.host.certificates",
}

# A closing channel does not cancel these operations; they end complete or rolled back.
UNINTERRUPTED = frozenset(
    {"apply", "content", "recover", "rollback", "install", "service", "application", "keepalived", "fpm"}
)


def find(name: str) -> Run | None:
    """Return the function that implements the operation `name`; None for an unknown name."""
    module = MODULES.get(name)
    if module is None:
        return None
    run: Run = importlib.import_module(module).run
    return run
