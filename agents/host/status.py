"""Result of a transaction."""

from __future__ import annotations

import threading
from typing import Any

from agents.host import state
from agents.host.operations import Emit


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """{"transaction": id} -> its ApplyResult; {"outcome": ""} while it runs or waits for `recover`; {"outcome":
    "unknown"} if this host never started it, or has deleted it.
    """
    ident = state.check_id(args.get("transaction"))
    result = state.Journal(ident).outcome()
    if result is not None:
        return result
    return {"outcome": "" if state.open_transaction() == ident else "unknown", "error": "", "steps": []}
