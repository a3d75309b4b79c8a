"""Test, start, reload and stop of each server: one small module per server."""

from __future__ import annotations

import importlib

from agents.host.engines.base import Engine


def engine_for(control: dict[str, str]) -> Engine:
    """Engine of a checked EngineControl (request.check_engine)."""
    made: Engine = importlib.import_module("agents.host.engines." + control["engine"]).Server(control)
    return made
