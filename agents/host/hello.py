"""Identity of this agent."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from agents.host.operations import Emit


def identity() -> dict[str, Any]:
    """Agent (name of its content-addressed file), Python version, process and account."""
    return {
        "agent": os.path.basename(sys.argv[0]),
        "python": "%d.%d.%d" % sys.version_info[:3],
        "pid": os.getpid(),
        "uid": os.geteuid(),
    }


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    return identity()
