"""Convert the state folder of older agents to the current layout.

STATE/open                           only the id of the open transaction
    STATE/transactions/ID/journal.jsonl  its records, in the current format
    STATE/transactions/ID/old/N          previous content of file N; N.edited: an edit that blocked an undo

An upgrade may happen during a transaction. The conversion runs under the host's lock, which old agents use too, and
every part can be repeated after a kill: the mark of the open transaction is converted last.
"""

from __future__ import annotations

import os
import shutil

from agents import wire
from agents.host import state
from agents.host.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_JOURNAL = "journal.jsonl"
_EDITED = ".edited"
_UNREADABLE = (
    "transaction %s of an earlier agent was cut off, and its journal %s/%s cannot be read (%s). Compare the servers' "
    "files with what was deployed, remove the hidden names .paddock-* beside them, then delete %s/open and try again."
)


def adopt(root: str) -> None:
    """Convert everything below the state folder `root` to the current names."""
    marked = state.older_mark(root)
    for ident in _folders(root):
        if ident != marked:
            _take_ended(root, ident)
    if marked:
        _take_open(root, marked)


def _folders(root: str) -> list[str]:
    with os.scandir(root + "/transactions") as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _take_ended(root: str, ident: str) -> None:
    """Convert an ended transaction. One without a result has changed nothing: it is marked as open before the first
    change.
    """
    folder = "%s/transactions/%s" % (root, ident)
    try:
        records = state.records_at(folder + "/" + _JOURNAL)
    except ValueError:  # unreadable after a crash of the host, so it is deleted
        records = []
    if any(record["record"] == "outcome" for record in records):
        _take_files(folder)
        os.rename(folder + "/" + _JOURNAL, folder + ".jsonl")
    shutil.rmtree(folder)


def _take_open(root: str, ident: str) -> None:
    folder = "%s/transactions/%s" % (root, ident)
    try:
        records = state.records_at(folder + "/" + _JOURNAL)
    except ValueError as error:
        raise Refusal("failed", _UNREADABLE % (ident, folder, _JOURNAL, error, root), transaction=ident) from None
    if not records:  # only the mark of an already deleted transaction
        os.unlink(root + "/open")
        shutil.rmtree(folder, ignore_errors=True)
        return
    _take_files(folder)
    records[0]["transaction"] = ident
    _replace(root + "/open", records)
    state.sync_folder(root)
    shutil.rmtree(folder)


def _take_files(folder: str) -> None:
    try:
        names = os.listdir(folder + "/old")
    except FileNotFoundError:
        return
    for name in names:
        edited = name.endswith(_EDITED)
        kind, number = ("edited", name[: -len(_EDITED)]) if edited else ("old", name)
        os.rename("%s/old/%s" % (folder, name), "%s~%s-%s" % (folder, kind, number))


def _replace(path: str, records: list[dict[str, Any]]) -> None:
    draft = path + ".new"
    with open(draft, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(b"".join(wire.dumps(record).encode("ascii") + b"\n" for record in records))
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, path)
