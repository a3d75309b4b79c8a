"""Operation `hello`: report the identity of this agent."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from agents.host.operations import Emit


def identity() -> dict[str, Any]:
    """Return the agent's file name (with its content hash), Python version, process id and user id."""
    return {
        "agent": os.path.basename(sys.argv[0]),
        "python": "%d.%d.%d" % sys.version_info[:3],
        "pid": os.getpid(),
        "uid": os.geteuid(),
    }


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    return identity()
