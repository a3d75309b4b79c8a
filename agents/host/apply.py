"""Operation `apply`: carry out a set of file changes as one transaction (transaction.py)."""

from __future__ import annotations

import threading
from typing import Any

from agents.host import faults, recover, state
from agents.host.errors import Refusal
from agents.host.operations import Emit
from agents.host.request import Request
from agents.host.steps import Steps
from agents.host.transaction import Transaction


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Carry out an ApplyRequest and return an ApplyResult (agents/protocol.py). A request whose transaction was carried
    out before returns the first result and does nothing.
    """
    request = Request(args)
    return run_request(request, emit, cancelled)


def run_request(request: Request, emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    steps = Steps(emit)
    with state.HostLock(), steps.streamed():
        with steps.step("lock"):
            if not state.is_settled():
                _repair()
        faults.point("locked")
        known = state.Journal(request.ident).outcome()
        if known is not None:
            return known
        return Transaction(request, steps, cancelled).run()


def _repair() -> None:
    recover.repair()
    left = state.open_transaction()
    if left:
        raise Refusal(
            "failed",
            "the interrupted transaction %s could not be rolled back; see the status of the transaction" % left,
            transaction=left,
        )
