"""Operation `recover`: after the agent was killed, undo an unfinished transaction, or clean up after a finished one."""

from __future__ import annotations

import threading
from typing import Any

from agents.host import state
from agents.host.operations import Emit
from agents.host.steps import Steps
from agents.host.undo import Undo, clean_all


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Undo or complete an interrupted transaction; return {"transactions": [{"transaction", "outcome", "error"}]}, with
    a row for that transaction. Usually there is none.

    Waits for a running transaction; afterwards, the operation `status` knows the result of every transaction.
    """
    with state.HostLock():
        return {"transactions": repair(emit)}


def repair(emit: Emit | None = None) -> list[dict[str, Any]]:
    """Undo or complete the open transaction, if there is one. The caller must hold the host's lock."""
    state.clear_torn()
    ident = state.open_transaction()
    if not ident:
        return []
    journal = state.Journal(ident)
    records = journal.records()
    begun = next((record for record in records if record["record"] == "begin"), None)
    result = journal.outcome()
    if result is not None:
        clean_all(begun["entries"] if begun else [])
        journal.close()
    else:
        assert begun is not None  # the first record, complete
        result = _undone(journal, begun, records, emit)
    return [{"transaction": ident, "outcome": result["outcome"], "error": result["error"]}]


def _undone(
    journal: state.Journal, begun: dict[str, Any], records: list[dict[str, Any]], emit: Emit | None
) -> dict[str, Any]:
    steps = Steps(emit or (lambda data: None))
    steps.done = [record["step"] for record in records if record["record"] == "step"]
    steps.journal = journal
    last = steps.done[-1]["name"] if steps.done else "journal"
    with steps.streamed():
        problem = Undo(journal, begun, steps).run(switched=True)
    error = "The agent was killed after the step %r. Paddock restored the previous configuration." % last
    if problem:
        error += "\n\nPaddock could not completely restore the previous state:\n%s" % problem
    result = steps.result("failed" if problem else "rolled_back", error)
    journal.end(result)
    journal.close()
    return result
