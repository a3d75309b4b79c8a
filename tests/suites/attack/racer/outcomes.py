"""What an answer of the agent came to, in one word."""

from __future__ import annotations

from typing import Any


def outcome_of(message: dict[str, Any]) -> str:
    """result or event, an ApplyResult's outcome, or an error's code."""
    data = message["data"]
    return str(data["code"] if message["type"] == "error" else data.get("outcome", message["type"]))
