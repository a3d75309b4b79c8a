"""Operation `facts`: report this host's system, web servers and load tools."""

from __future__ import annotations

import os
import platform
import sys
import threading
from typing import Any

from agents.host import (
    applications,
    commands,
    defaults,
    detect,
    namespace,
    netem,
    own_addresses,
    php_sockets,
    processes,
)
from agents.host.load_tools import LOAD_TOOLS
from agents.host.operations import Emit


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Collect the facts of this host.

    {"hostname", "addresses", "kernel", "machine", "os": {"id", "version", "name"}, "cpus", "cpu_model", "memory_bytes",
    "python", "uid", "home", "gallop_base", "systemd", "namespaces", "netem", "tools": {name: path}, "php_sockets":
    [paths], "lsphp": path, "applications": {name: version, "" if a part is missing}, "default_servers": [...],
    "engines": [...]}.

    "engines" is the result of detect.engines, "default_servers" of defaults.default_servers. "netem" is {"can", "why"}:
    whether the kernel supports `tc netem`, and why not. "gallop_base" is the folder for gallop that the account's
    environment sets (PADDOCK_GALLOP_BASE), "" for the default.
    """

    engines = detect.engines()
    return {
        "hostname": platform.node(),
        "addresses": own_addresses.own(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "os": distribution(),
        "cpus": os.cpu_count() or 1,
        "cpu_model": _field("/proc/cpuinfo", "model name"),
        "memory_bytes": int((_field("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) * 1024,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "uid": os.geteuid(),
        "home": os.path.expanduser("~"),
        "gallop_base": os.environ.get("PADDOCK_GALLOP_BASE", ""),
        "systemd": detect.has_systemd(),
        "namespaces": namespace.is_supported(),
        "netem": _netem(),
        "tools": {name: path for name, path in ((name, commands.find(name)) for name in LOAD_TOOLS) if path},
        "applications": {"wordpress": applications.version()},
        "php_sockets": php_sockets.found(),
        "lsphp": detect.lsphp(engines),
        "default_servers": defaults.default_servers(engines),
        "engines": engines,
    }


def _netem() -> dict[str, Any]:

    why = netem.probe()
    return {"can": not why, "why": why}


def distribution() -> dict[str, str]:
    """Return id, version and name of the distribution from /etc/os-release (os-release(5)); "" for missing values."""
    values = {}
    for line in processes.read("/etc/os-release").decode("utf-8", "replace").splitlines():
        name, _, value = line.partition("=")
        values[name] = value.strip().strip("\"'")
    return {
        "id": values.get("ID", ""),
        "version": values.get("VERSION_ID", ""),
        "name": values.get("PRETTY_NAME", ""),
    }


def _field(path: str, name: str) -> str:
    for line in processes.read(path).decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
