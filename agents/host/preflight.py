"""Operation `preflight`: collect facts about the host for a plan, without any change on the host."""

from __future__ import annotations

import threading
from typing import Any

from agents.host import busiest, prerequisites
from agents.host.errors import Refusal
from agents.host.operations import Emit

MAX_LOGS = 100


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Collect facts about the host for a plan.

    {"logs": [{"path", "roots", "most"}], "needs": see prerequisites.look, or None} -> {"busiest": [[path of a URL, ...]
    for each log], "missing": rows of prerequisites.look}.
    """
    logs, needs = args.get("logs", []), args.get("needs")
    if not isinstance(logs, list) or len(logs) > MAX_LOGS:
        raise Refusal("invalid", "logs is a list of at most %d" % MAX_LOGS)
    return {
        "busiest": [busiest.addresses(str(log["path"]), log["roots"], int(log["most"])) for log in logs],
        "missing": prerequisites.look(needs) if needs else [],
    }
