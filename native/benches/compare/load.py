"""Runs of the load tools, on a core of their own; each gives back what it says was done."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass

from compare.servers import LOAD_CPU, RELEASE


@dataclass(frozen=True)
class Load:
    requests: int
    failed: int
    seconds: float


def _run(*argv: str) -> str:
    done = subprocess.run(["taskset", "-c", LOAD_CPU, *argv], capture_output=True, text=True, check=False, timeout=200)
    return done.stdout + done.stderr


def _find(pattern: str, text: str) -> re.Match[str]:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"the load tool's output lacks {pattern}:\n{text[-1500:]}")
    return found


def _seconds(text: str) -> float:
    number, unit = _find(r"([\d.]+)(us|ms|s|m)$", text).groups()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}[unit]


def wrk(url: str, *, connections: int = 100, seconds: float = 2, close: bool = False) -> Load:
    header = ["-H", "Connection: close"] if close else []
    text = _run("wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", *header, url)
    requests, took = _find(r"(\d+) requests in ([\d.]+(?:us|ms|s|m))", text).groups()
    failed = sum(int(n) for n in re.findall(r"Non-2xx or 3xx responses: (\d+)", text))
    if not close:
        failed += sum(int(n) for n in re.findall(r"(?:connect|read|write|timeout) (\d+)", text))
    return Load(int(requests), failed, _seconds(took))


def h2load(url: str, *, requests: int, connections: int = 100, streams: int = 10) -> Load:
    text = _run("h2load", "-t1", f"-n{requests}", f"-c{connections}", f"-m{streams}", url)
    done = _find(r"(\d+) succeeded, (\d+) failed, (\d+) errored", text)
    took = _find(r"finished in ([\d.]+(?:us|ms|s|m)),", text).group(1)
    return Load(int(done.group(1)), int(done.group(2)) + int(done.group(3)), _seconds(took))


def http3(url: str, *, requests: int, connections: int = 100, streams: int = 1, mtu: int = 1452) -> Load:
    tool = str(RELEASE / "gallop-load")
    argv = [f"-n {requests}", f"-c {connections}", f"-m {streams}", f"--mtu {mtu}"]
    text = _run(tool, *" ".join(argv).split(), "--json", url)
    if not text.startswith("{"):
        raise RuntimeError(f"gallop-load: {text[-500:]}")
    result = json.loads(text)
    return Load(result["succeeded"], result["failed"], result["seconds"])
