"""Operation `service`: start, stop or reload one web server, or read its state."""

from __future__ import annotations

import threading
from typing import Any

from agents.host import state
from agents.host.engines import engine_for
from agents.host.engines.base import Engine, EngineError
from agents.host.errors import Refusal
from agents.host.operations import Emit
from agents.host.request import administrators, check_engine

ACTIONS = ("start", "stop", "reload", "status")


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Start, stop or reload a web server, or read its state; return {"running", "pid", "workers", "argv", "output"}.

    A reload first runs the server's own test, and ends when the new configuration is live. Starting a running server,
    or stopping a stopped one, changes nothing.
    """
    control = check_engine(args.get("engine"))
    engine = engine_for(control)
    action = args.get("action")
    if action not in ACTIONS:
        raise Refusal("invalid", "action is one of %s" % ", ".join(ACTIONS))
    argv: list[str] = []
    output = ""
    if action in ("start", "reload"):
        engine.require_own(administrators([control]))
    if action != "status":
        with state.HostLock():
            try:
                argv, output = _act(engine, str(action))
            except EngineError as error:
                said = error.done.output if error.done is not None else ""
                raise Refusal("failed", "%s\n%s" % (error, said) if said else str(error)) from None
    return dict(engine.status(), argv=argv, output=output)


def _act(engine: Engine, action: str) -> tuple[list[str], str]:
    if action == "stop":
        return engine.stop(), ""
    if action == "start" and engine.pid():
        return [], "the web server is already running"
    done = engine.test()
    if done.exit_code and engine.starts_with_errors:
        done = engine.new_errors(done, done)  # nothing has changed, so all errors existed before
    if done.exit_code != 0:
        raise EngineError("the web server rejects its configuration; nothing was changed", done)
    if action == "start":
        started = engine.start()
        return started.argv, "\n".join(filter(None, (done.output, started.output)))
    before, argv = engine.reload(engine.pid())
    engine.wait_live(before)
    return argv, done.output
