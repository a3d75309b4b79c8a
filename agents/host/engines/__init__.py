"""How each server is tested, started, reloaded and stopped: one small module per server."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agents.host.engines.base import Engine


def engine_for(control: dict[str, str]) -> Engine:
    """The engine behind a checked EngineControl (request.check_engine)."""
    module = importlib.import_module("agents.host.engines." + control["engine"])
    made: Engine = module.Server(control)
    return made
