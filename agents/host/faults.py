"""Fault injection for tests: the agent dies, loses its channel or runs out of disk space at a given point.

Inactive unless tests set PADDOCK_AGENT_TEST=1 in the environment. PADDOCK_AGENT_FAULT is ACTION:POINT, with the actions

    kill     SIGKILL to this process
    hold     create a file `held` in the state folder, and wait until the channel is closed
    wait     continue after a moment
    full     fail as if the disk were full
    without  behave as on a host that lacks a feature; POINT is then namespaces, or namespaces+copies
"""

from __future__ import annotations

import errno
import os
import signal
import threading

# Points of a transaction, in order. The number of the file follows "switch-" and "undo-".
APPLY_POINTS = (
    "locked",
    "checked",
    "journaled",
    "staging",
    "staged",
    "tested",
    "switch-0",
    "switch-1",
    "switched",
    "reloading",
    "reloaded",
    "live",
    "probed",
    "committed",
)
UNDO_POINTS = ("undoing", "undo-0", "undo-1", "undone", "undo-reloaded", "proved")
HOLD_S = 20.0
WAIT_S = 0.5

channel_closed = threading.Event()
_FAULT = os.environ.get("PADDOCK_AGENT_FAULT", "") if os.environ.get("PADDOCK_AGENT_TEST") == "1" else ""


def is_missing(name: str) -> bool:
    """Return whether the agent must behave as if the host lacked the feature `name` (action `without`)."""
    action, _, names = _FAULT.partition(":")
    return action == "without" and name in names.split("+")


def point(name: str) -> None:
    """Inject the fault of PADDOCK_AGENT_FAULT if its point is `name`, the step that the agent has reached."""
    if not _FAULT:
        return
    action, _, where = _FAULT.partition(":")
    if where != name:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "hold":
        with open(os.path.join(os.environ["PADDOCK_AGENT_STATE"], "held"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        channel_closed.wait(HOLD_S)
    elif action == "wait":
        channel_closed.wait(WAIT_S)
    elif action == "full":
        raise OSError(errno.ENOSPC, "No space left on device")
