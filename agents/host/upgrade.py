"""Exchanging the program of a server that may be running from it: tested first, and undone when it does not start.

The program a process was started from keeps its inode, so the old server answers until it is told to end. Between its
end and the new one's start, some tenths of a second, connections are refused.
"""

from __future__ import annotations

import os

from agents.host import commands, state
from agents.host.engines import engine_for
from agents.host.engines.base import Engine, EngineError
from agents.host.errors import Refusal
from agents.host.request import check_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def put(draft: str, path: str, control: Any) -> None:
    """`draft` becomes `path`. Refusal, with `path` and the server as they were, when the server does not take it."""
    engine = engine_for(check_engine(control)) if control else None
    if engine is None or not engine.pid():
        _rename(draft, path)
        return
    try:
        _test(engine, draft)
    except Refusal:
        os.unlink(draft)
        raise
    former = draft + ".former"
    os.link(path, former)
    _exchange(engine, draft, path, former)


def _test(engine: Engine, draft: str) -> None:
    argv = engine.test_argv(engine.main_config, engine.prefix)
    said = commands.run([draft, *argv[1:]], engine.env())
    if said.exit_code != 0:
        raise Refusal("failed", "the new program refuses the configuration; the former one goes on\n%s" % said.output)


def _exchange(engine: Engine, draft: str, path: str, former: str) -> None:
    _rename(draft, path)
    try:
        engine.stop()
        engine.start()
    except (EngineError, OSError) as error:
        _rename(former, path)
        outcome = _start_former(engine)
        raise Refusal("failed", "%s; %s\n%s" % (error, outcome, _output(error))) from None
    os.unlink(former)


def _start_former(engine: Engine) -> str:
    """What became of the former program, which is in its place again."""
    try:
        if not engine.pid():
            engine.start()
    except (EngineError, OSError) as error:
        message = "the former program is in its place again and does not start either, so the server is down: %s %s"
        return message % (error, _output(error))
    return "the former program runs again"


def _output(error: Exception) -> str:
    done = error.done if isinstance(error, EngineError) else None
    return done.output if done is not None else ""


def sweep(path: str) -> None:
    """Removes what an agent that was killed left beside `path`: drafts and former programs. Under the host's lock."""
    folder, name = os.path.split(path)
    for entry in os.listdir(folder):
        rest = entry[len(name) + 2 :] if entry.startswith(".%s." % name) else ""
        if rest.partition(".")[0].isdigit():
            os.unlink(os.path.join(folder, entry))


def _rename(source: str, path: str) -> None:
    os.rename(source, path)
    state.sync_folder(os.path.dirname(path))
