"""Test, start, reload and stop of each server: one small module per server."""

from __future__ import annotations

from agents.host.operations import loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agents.host.engines.base import Engine


def engine_for(control: dict[str, str]) -> Engine:
    """Engine of a checked EngineControl (request.check_engine)."""
    made: Engine = loaded("agents.host.engines." + control["engine"]).Server(control)
    return made
