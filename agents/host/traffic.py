"""Operation `traffic`: read the counters of a gallop server from its private `status_socket`."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

from agents.host import paths, unix
from agents.host.errors import Refusal
from agents.host.operations import Emit

TIMEOUT_S = 5.0
MAX_BYTES = 32 * 1024 * 1024
MAX_PAUSE_S = 10.0
# A host may have ten thousand sites: without names, only the busiest are returned.
MAX_ZONES = 200
REQUEST = b"GET /status HTTP/1.0\r\nHost: localhost\r\nUser-Agent: paddock-agent\r\n\r\n"


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Read the status of a gallop server: {"socket", "roots", "seconds", "zones"} -> {"readings": [status]}.

    There is one reading if `seconds` is 0; otherwise two, the second one `seconds` later. `zones` are the names of
    sites whose counters to return; without it, a reading has the busiest MAX_ZONES sites. "zone_count" in a reading is
    the number of all sites.
    """
    path = paths.resolve(args.get("socket"), paths.resolve_roots(args.get("roots")))
    pause, zones = args.get("seconds", 0), args.get("zones")
    if isinstance(pause, bool) or not isinstance(pause, (int, float)) or not 0 <= pause <= MAX_PAUSE_S:
        raise Refusal("invalid", "seconds is a number from 0 to %d" % MAX_PAUSE_S)
    if zones is not None and not (isinstance(zones, list) and all(isinstance(name, str) for name in zones)):
        raise Refusal("invalid", "zones is a list of names")
    readings = [_reading(path, zones)]
    if pause:
        cancelled.wait(pause)
        readings.append(_reading(path, zones))
    return {"readings": readings}


def _reading(path: str, names: list[str] | None) -> dict[str, Any]:
    try:
        status: dict[str, Any] = json.loads(_body(path))
    except (ValueError, RecursionError):
        raise Refusal("failed", "the response at %s is not gallop's status" % path, path=path) from None
    zones = status.get("zones") if isinstance(status, dict) else None
    if not isinstance(zones, dict):
        raise Refusal("failed", "the response at %s is not gallop's status" % path, path=path)
    if names is None:
        wanted = sorted(zones, key=lambda name: (-zones[name]["requests"], name))[:MAX_ZONES]
    else:
        wanted = [name for name in names if name in zones]
    status["zone_count"] = len(zones)
    status["zones"] = {name: zones[name] for name in wanted}
    return status


def _body(path: str) -> bytes:
    answer = b"".join(_answer(path))
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 ") or len(answer) > MAX_BYTES:
        said = head.split(b"\r\n", 1)[0].decode("utf-8", "replace")[:80] or "nothing"
        raise Refusal("failed", "%s responds with status %s" % (path, said), path=path)
    return body


def _answer(path: str) -> list[bytes]:
    """Return the HTTP response from the Unix socket `path`, head and body, as a list of pieces. Reading stops above
    MAX_BYTES.
    """
    parts, size = [], 0
    with _connected(path) as stream:
        try:
            stream.sendall(REQUEST)
            deadline = time.monotonic() + TIMEOUT_S
            while size <= MAX_BYTES and time.monotonic() < deadline:
                part = stream.recv(256 * 1024)
                if not part:
                    break
                parts.append(part)
                size += len(part)
        except OSError as error:
            raise Refusal("failed", "%s: %s" % (path, error.strerror or error), path=path) from None
    return parts


def _connected(path: str) -> socket.socket:
    try:
        return unix.connected(path, TIMEOUT_S)
    except FileNotFoundError:
        raise Refusal(
            "missing", "the socket %s does not exist; check that gallop is running" % path, path=path
        ) from None
    except OSError as error:
        raise Refusal("failed", "%s: %s" % (path, error.strerror or error), path=path) from None
