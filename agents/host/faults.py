"""Places at which a test can make the agent die, lose its channel or run out of disk.

Without PADDOCK_AGENT_TEST=1 in the environment, which only tests set, all of this does nothing.
PADDOCK_AGENT_FAULT is ACTION:POINT, with the actions

    kill   SIGKILL to this process
    hold   say so by a file `held` in the state folder, and wait until the channel is closed
    wait   go on only after a moment
    full   fail as if the disk were full
    without  behave as on a host that lacks what is named: namespaces, or namespaces+copies
"""

from __future__ import annotations

import errno
import os

from agents.host import lean

# Every point of a transaction, in order. "switch-" and "undo-" are followed by the number of the file.
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

channel_closed = lean.Event()
_FAULT = os.environ.get("PADDOCK_AGENT_FAULT", "") if os.environ.get("PADDOCK_AGENT_TEST") == "1" else ""


def is_missing(name: str) -> bool:
    """Whether the test wants the agent to do without `name`."""
    action, _, names = _FAULT.partition(":")
    return action == "without" and name in names.split("+")


def point(name: str) -> None:
    """Does what the test asked for at this point."""
    if not _FAULT:
        return
    action, _, where = _FAULT.partition(":")
    if where != name:
        return
    if action == "kill":
        os.kill(os.getpid(), lean.number("KILL"))
    elif action == "hold":
        with open(os.path.join(os.environ["PADDOCK_AGENT_STATE"], "held"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        channel_closed.wait(HOLD_S)
    elif action == "wait":
        channel_closed.wait(WAIT_S)
    elif action == "full":
        raise OSError(errno.ENOSPC, "No space left on device")
