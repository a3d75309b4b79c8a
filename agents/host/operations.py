"""The table of operations: a name, and the module whose `run` does it, imported when first asked for.

    run(args: dict, emit: Callable[[dict], None], cancelled: lean.Event) -> dict

`args` is the request's, not checked yet. `emit` sends one event; it never raises, also when nobody listens any more.
`cancelled` is set when the panel takes the request back or its channel closes. `run` returns the result, or raises
`errors.Refusal`. Every call has a thread to itself.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    from agents.host import lean

    Emit = Callable[[Dict[str, Any]], None]
    Run = Callable[[Dict[str, Any], Emit, lean.Event], Dict[str, Any]]

MODULES = {
    "hello": "agents.host.hello",
    "facts": "agents.host.facts",
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
    "stand": "agents.host.stand",
    "application": "agents.host.applications",
    "fingerprint": "agents.host.fingerprint",
    "ports": "agents.host.ports",
    "empty": "agents.host.empty",
    "resolve": "agents.host.resolve",
    "challenge_put": "agents.host.challenge_put",
    "challenge_remove": "agents.host.challenge_remove",
}

# A closing channel does not take these back: they come to their end, whole or undone.
UNINTERRUPTED = frozenset({"apply", "recover", "rollback", "install", "service", "application"})

# What a push asks for. These leave the thread that they run in as it was, so that the next may have it: the others may
# enter a namespace.
LEAVES_THREAD = frozenset({"hello", "drift", "apply", "recover", "status"})


def find(name: str) -> Run | None:
    """The function behind an operation's name, or None for a name that there is not."""
    module = MODULES.get(name)
    if module is None:
        return None
    return loaded(module).run  # type: ignore[no-any-return]


def loaded(module: str) -> Any:
    """What importlib.import_module does, which imports more than some operations need."""
    __import__(module)
    return sys.modules[module]
