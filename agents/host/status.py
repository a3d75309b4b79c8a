"""Operation `status`: report the result of a transaction, or prevent a transaction that has not begun."""

from __future__ import annotations

import threading
from typing import Any

from agents.host import recover, state
from agents.host.operations import Emit


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Return the result of a transaction: {"transaction": id} -> ApplyResult.

    {"outcome": ""} while the transaction runs or waits for `recover`; {"outcome": "unknown"} if this host never started
    it, or has deleted its journal. With "abandon": true, a transaction that has not begun is prevented: it ends as
    "abandoned", and a request for it that arrives later gets this result. If it has begun, it is first completed or
    rolled back.
    """
    ident = state.check_id(args.get("transaction"))
    if args.get("abandon") is True:
        return _abandoned(ident)
    result = state.Journal(ident).outcome()
    if result is not None:
        return result
    return {"outcome": "" if state.open_transaction() == ident else "unknown", "error": "", "steps": []}


def _abandoned(ident: str) -> dict[str, Any]:
    with state.HostLock():
        recover.repair()
        known = state.Journal(ident).outcome()
        if known is not None:
            return known
        result = {"outcome": "abandoned", "error": "", "steps": [], "checks": []}
        journal = state.Journal(ident)
        journal.begin({"entries": [], "engines": [], "roots": [], "answers": []})
        journal.end(result)
        journal.close()
        return result
