"""Loss of a host during a run: find out whether the host restarted, and what the run left on the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from panel.remote import pool
from panel.remote.client import Message
from panel.remote.errors import HostKeyChanged, HostKeyUnknown, OperationRefused, RemoteError
from panel.remote.target import Target

# A server's firmware takes minutes before the kernel starts.
RETURN_S = 600.0
LOOK_EVERY_S = 2.0
_CALL_S = 60.0


def is_connection_loss(error: RemoteError) -> bool:
    """Return whether the error means that the connection to the host was lost. False if the agent responded with an
    error.
    """
    return not isinstance(error, OperationRefused)


def told(error: RemoteError, remote: Target, asked: Mapping[str, Any], check: Callable[[], None]) -> str:
    """Wait up to ten minutes until a lost host responds again; explain the loss, and name leftovers of the run.

    `error` is the error that reported the loss. `asked` is the agent's report on the running test bed, {"namespaces",
    "tick", "boot"}, or only {"boot": boot id}. `check` is called repeatedly during the wait; an exception of `check`
    ends the wait.
    """
    began = time.monotonic()
    try:
        found = _answer(remote, asked, check)
    except RemoteError as silent:
        return f"{error.message} {_silent_words(remote, silent)}"
    before, now = str(asked.get("boot") or ""), str(found.get("boot") or "")
    words = error.message
    if before and now and before != now:
        words = (
            f"{remote.name} restarted during the run: it was reachable again after "
            f"{time.monotonic() - began:.0f} s, with a new boot ID (boot {before[:8]} before, {now[:8]} "
            "now)."
        )
    return f"{words} {leftovers_text(remote.name, found['left'])}"


def leftovers_report(remote: Target, asked: Mapping[str, Any]) -> str:
    """Describe, in words, which processes and folders a run left on a host after the run's worker died.
    `asked` is the agent's last report on the test bed, as in `told`. An unreachable host is described, too, instead of
    a RemoteError.
    """
    try:
        with pool.session(remote) as agent:
            found = agent.call("testbed", {"action": "left", **asked}, timeout=_CALL_S)
    except RemoteError as silent:
        return _silent_words(remote, silent)
    return leftovers_text(remote.name, found["left"])


def _silent_words(remote: Target, silent: RemoteError) -> str:
    return (
        f"Paddock could not check {remote.name} for leftovers of the run ({silent.message}). The "
        "web servers of the run stop when the agent on the host stops, and the next run on this host removes the "
        "web servers' folder."
    )


def leftovers_text(host: str, left: list[str]) -> str:
    return f"Leftovers of the run on {host}: {'; '.join(left)}." if left else f"The run left nothing on {host}."


def _answer(remote: Target, asked: Mapping[str, Any], check: Callable[[], None]) -> Message:
    """Wait until a new agent starts on the host; return the agent's report on leftovers of the run.

    Connections and logins are tried again for ten minutes, because a booting host refuses both for a while. `check` is
    called before each new attempt.
    """
    deadline = time.monotonic() + RETURN_S
    while True:
        try:
            with pool.session(remote) as agent:
                return agent.call("testbed", {"action": "left", **asked}, timeout=_CALL_S)
        except (OperationRefused, HostKeyChanged, HostKeyUnknown):
            raise
        except RemoteError:
            if time.monotonic() > deadline:
                raise
        check()
        time.sleep(LOOK_EVERY_S)
