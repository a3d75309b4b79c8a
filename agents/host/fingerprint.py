"""Report the conditions of measurements on this host. Two measurements are comparable only if their conditions are
equal.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import threading
from typing import Any, Callable, Dict, List

from agents.host import processes
from agents.host.load_tools import LOAD_TOOLS

_SYSCTLS = (
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_tw_reuse",
)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20).strip()
    except OSError:
        return ""


def cpu_model(cpuinfo: str) -> str:
    """Return the name of the first CPU from `cpuinfo`, the text of /proc/cpuinfo; "" if the text has no name."""
    for key in ("model name", "Model", "Hardware"):
        for line in cpuinfo.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return " ".join(value.split())
    return ""


def _memory_bytes() -> int:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _output(argv: List[str]) -> str:
    # HOME is not writable, so that siege does not leave a configuration behind.
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/proc", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def version(binary: str, name: str) -> str:
    """Return the version of a load tool: the one that it prints or, if it has no option for that, the one of its Debian
    package; "" if unknown.
    """
    known = LOAD_TOOLS[name].version
    if known is None:
        return _package_version(os.path.realpath(binary))
    option, pattern = known
    match = re.search(pattern, _output([binary, option]))
    return match.group(1) if match else ""


def _package_version(path: str) -> str:
    """Return the version of the Debian package that contains the file `path`; "" if no package does."""
    owner = re.fullmatch(r"([a-z0-9.+:-]+): %s\s*" % re.escape(path), _output(["dpkg-query", "-S", path]))
    if not owner:
        return ""
    found = _output(["dpkg-query", "-W", "-f", "${Version}", owner.group(1)])
    return found if re.fullmatch(r"\S+", found) else ""


def _speaks_h3(binary: str) -> bool:
    """Return whether h2load supports HTTP/3: then the default ALPN list in its help begins with h3."""
    return "Default: h3," in _output([binary, "--help"])


def tools() -> Dict[str, Dict[str, Any]]:
    """Return the installed load tools: {"ab": {"version": "2.3", "h3": false}, ...}."""
    found = {}
    for name in LOAD_TOOLS:
        binary = shutil.which(name)
        if binary:
            found[name] = {
                "version": version(binary, name),
                "h3": name == "h2load" and _speaks_h3(binary),
            }
    return found


def run(args: Dict[str, Any], emit: Callable[[Dict[str, Any]], None], cancelled: threading.Event) -> Dict[str, Any]:
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "boot_id": _read("/proc/sys/kernel/random/boot_id"),
        "boot": processes.boot(),
        "cpu_model": cpu_model(_read("/proc/cpuinfo")),
        "cpus": os.cpu_count() or 1,
        "cpus_usable": len(os.sched_getaffinity(0)),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "memory_bytes": _memory_bytes(),
        "sysctls": {name: _read("/proc/sys/" + name.replace(".", "/")) for name in _SYSCTLS},
        "tools": tools(),
    }
