"""Replace the program of a server. If the server runs, the new program is tested first, and rolled back if it does not
start.

A process keeps its program's inode, so the old server runs until it is stopped. Between its end and the start of the
new server, for some tenths of a second, connections are refused.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from agents.host import commands
from agents.host.engines import engine_for
from agents.host.engines.base import Engine, EngineError
from agents.host.errors import Refusal
from agents.host.request import administrators, check_engine

if TYPE_CHECKING:
    from agents.host.install import Place


def put(place: Place, draft: str, control: Any) -> None:
    """Replace the program at `place` with the file `draft`. If the server that `control` (an EngineControl) describes
    runs from it, restart the server.

    Raises Refusal if the new program rejects the server's configuration or does not start. The old program is then
    restored and started again.
    """
    checked = check_engine(control) if control else None
    engine = engine_for(checked) if checked else None
    if engine is None or checked is None or not engine.pid():
        place.take(draft)
        return
    try:
        engine.require_own(administrators([checked]))
        _test(engine, os.path.join(place.folder, draft))
    except Refusal:
        place.unlink(draft)
        raise
    former = draft + ".former"
    place.keep(former)
    _exchange(engine, place, draft, former)


def _test(engine: Engine, draft: str) -> None:
    argv = engine.test_argv(engine.main_config, engine.prefix)
    said = commands.run([draft, *argv[1:]], engine.env())
    if said.exit_code != 0:
        raise Refusal(
            "failed", "the new program rejects the configuration; the former program keeps running\n%s" % said.output
        )


def _exchange(engine: Engine, place: Place, draft: str, former: str) -> None:
    place.take(draft)
    try:
        engine.stop()
        engine.start()
    except (EngineError, OSError) as error:
        place.take(former)
        outcome = _start_former(engine)
        raise Refusal("failed", "%s; %s\n%s" % (error, outcome, _output(error))) from None
    place.unlink(former)


def _start_former(engine: Engine) -> str:
    """Start the server with the restored old program. Return a phrase about the result, also if it does not start."""
    try:
        if not engine.pid():
            engine.start()
    except (EngineError, OSError) as error:
        message = "Paddock restored the former program, but it does not start either, so the web server is down: %s %s"
        return message % (error, _output(error))
    return "the former program runs again"


def _output(error: Exception) -> str:
    done = error.done if isinstance(error, EngineError) else None
    return done.output if done is not None else ""
