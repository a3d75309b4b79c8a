"""Operation `rollback`: undo one finished transaction by a new transaction, which makes the same checks."""

from __future__ import annotations

import threading
from typing import Any

from agents.host import checking, probe, state
from agents.host.apply import run_request
from agents.host.errors import Refusal
from agents.host.operations import Emit
from agents.host.request import Request


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Undo a finished transaction: {"transaction": id} -> ApplyResult of the new transaction "id.rollback".

    Refused as drift if a file of the transaction was changed afterwards. Folders that the transaction created stay.
    """
    ident = state.check_id(args.get("transaction"))
    journal = state.Journal(ident)
    begun = next((record for record in journal.records() if record["record"] == "begin"), None)
    outcome = journal.outcome()
    if begun is None or outcome is None or outcome["outcome"] != "applied":
        raise Refusal("missing", "this host has no record of the transaction %s" % ident, transaction=ident)
    answers = begun["answers"]
    request = {
        "transaction": ident + ".rollback",
        "roots": begun["roots"],
        "files": [_backwards(entry, journal) for entry in begun["entries"] if entry["is"] != "directory"],
        "engines": [engine["control"] for engine in begun["engines"]],
        "probes": [_as_before(*checking.remembered(item)) for item in answers],
    }
    return run_request(Request(request), emit, cancelled)


def _as_before(check: dict[str, Any], seen: dict[str, Any] | None) -> dict[str, Any]:
    """Return a transaction's probe for the new transaction that undoes it. The response must not be worse than `seen`,
    the observation before the first transaction.
    """
    return dict(probe.before_of(check), was=[], seen=seen, fresh=seen is None, new=False)


def _backwards(entry: dict[str, Any], journal: state.Journal) -> dict[str, Any]:
    expect = {"file": entry["sha256"], "link": "link:" + entry["target"], "absent": ""}[entry["is"]]
    change = {"path": entry["path"], "expect": expect}
    if entry["was"] == "file":
        # Undecodable bytes are preserved in both directions.
        text = journal.old(entry["number"]).decode("utf-8", "surrogateescape")
        return dict(change, action="put", content=text, mode=entry["old_mode"])
    if entry["was"] == "link":
        return dict(change, action="link", target=entry["old_target"])
    return dict(change, action="remove")
