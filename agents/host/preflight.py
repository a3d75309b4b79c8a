"""Facts of the host for a plan, before any change; reads only."""

from __future__ import annotations

import threading
from typing import Any

from agents.host import busiest
from agents.host.errors import Refusal
from agents.host.operations import Emit

MOST_LOGS = 100


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """{"logs": [{"path", "roots", "most"}]} -> {"busiest": [[address, ...] for each log]}."""
    logs = args.get("logs", [])
    if not isinstance(logs, list) or len(logs) > MOST_LOGS:
        raise Refusal("invalid", "logs is a list of at most %d" % MOST_LOGS)
    return {"busiest": [busiest.addresses(str(log["path"]), log["roots"], int(log["most"])) for log in logs]}
