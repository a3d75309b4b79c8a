"""Control of the web servers (test, start, reload, stop), with one module for each server."""

from __future__ import annotations

import importlib

from agents.host.engines.base import Engine


def engine_for(control: dict[str, str]) -> Engine:
    """Return the Engine for `control`, an EngineControl that request.check_engine has checked."""
    made: Engine = importlib.import_module("agents.host.engines." + control["engine"]).Server(control)
    return made
