"""gallop-load beside h2load: the same load on the same nginx, in turns, by HTTP/1.1 and HTTP/2, in clear and over TLS.

What makes them comparable is that neither is the bottleneck: nginx has one worker on one CPU, the tools have the other.
For files its rate is limited, so that what counts is whether the tools count alike. A tool that used more than 90 % of
its CPU in a case is named; its figures there are its own speed, not the server's.
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.netem import load_binary
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.process import tool

ROUNDS = 5
BUSY = 0.90
SITE = """
server {{
    listen 127.0.0.1:{plain}; listen 127.0.0.1:{clear2} http2; listen 127.0.0.1:{tls} ssl http2;
    access_log off; keepalive_requests 100000000; root {root}/www;
    ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem;
    location /limited/ {{ limit_rate 20m; }}
}}
"""
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Case:
    title: str
    arguments: str
    port: str = "plain"
    path: str = "/small.html"


CASES = (
    Case("HTTP/1.1, small page, 1 connection", "-n 10000 -c 1 {h1}"),
    Case("HTTP/1.1, small page, 20 connections", "-n 30000 -c 20 {h1}"),
    Case("HTTP/1.1, TLS, small page, 20 connections", "-n 30000 -c 20 {h1}", "tls"),
    Case("HTTP/1.1, TLS, small page, 200 connections", "-n 30000 -c 200 {h1}", "tls"),
    Case("HTTP/2, small page, 10 connections, 10 streams", "-n 40000 -c 10 -m 10 {h2}", "clear2"),
    Case("HTTP/2, TLS, small page, 10 connections, 10 streams", "-n 40000 -c 10 -m 10 {h2}", "tls"),
    Case("HTTP/2, TLS, 4 connections, 4 streams, for 2 s", "-D 2 -c 4 -m 4 {h2}", "tls"),
    Case("HTTP/1.1, TLS, 10 MB at 20 MB/s, 4 connections", "-n 8 -c 4 {h1}", "tls", "/limited/10m"),
    Case("HTTP/2, TLS, 10 MB at 20 MB/s, 4 connections", "-n 8 -c 4 {h2}", "tls", "/limited/10m"),
)


@dataclass
class Seen:
    """Of one tool on one case, a value for each round."""

    rates: list[float] = field(default_factory=list)
    means_ms: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)  # CPU of the tool, 1: one whole CPU
    server_us: list[float] = field(default_factory=list)  # nginx's CPU for each request

    @property
    def is_bound(self) -> bool:
        return statistics.median(self.busy) > BUSY


def main(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    ports = {name: free_port() for name in ("plain", "clear2", "tls")}
    nginx = _server(home, ports)
    said = subprocess.run([tool("h2load"), "--version"], check=True, capture_output=True, text=True).stdout
    print(f"{said.strip()}; nginx, one worker; medians of {ROUNDS} rounds in turns")
    head = (
        "case",
        "h2load",
        "gallop-load",
        "ratio",
        "mean ms",
        "mean ms",
        "own CPU",
        "own CPU",
        "nginx us",
        "nginx us",
    )
    print("| " + " | ".join(head) + " |")
    print("|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|")
    with nginx:
        subprocess.run(["taskset", "-acp", "0", str(_worker(nginx))], check=True, capture_output=True)
        for case in CASES:
            print(_row(case, _rounds(case, ports, nginx)), flush=True)


def _server(home: Path, ports: dict[str, int]) -> NginxInstance:
    nginx = NginxInstance(home)
    openssl = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=a.example -days 2"
    files = ["-keyout", str(home / "key.pem"), "-out", str(home / "cert.pem")]
    subprocess.run([*openssl.split(), *files], check=True, capture_output=True)
    (home / "www" / "limited").mkdir()
    (home / "www" / "small.html").write_text("x" * 1024)
    (home / "www" / "limited" / "10m").write_bytes(os.urandom(10_000_000))
    (home / "conf.d" / "site.conf").write_text(SITE.format(root=home, **ports))
    return nginx


def _worker(nginx: NginxInstance) -> int:
    master = (nginx.root / "run" / "nginx.pid").read_text().strip()
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return int(children[0])


def _rounds(case: Case, ports: dict[str, int], nginx: NginxInstance) -> dict[str, Seen]:
    seen = {"h2load": Seen(), "gallop-load": Seen()}
    scheme = "https" if case.port == "tls" else "http"
    url = f"{scheme}://127.0.0.1:{ports[case.port]}{case.path}"
    for _ in range(ROUNDS):
        for name, run in (("h2load", _h2load), ("gallop-load", _gallop_load)):
            _one(lambda run=run: run(case, url), _worker(nginx), seen[name])
    return seen


def _one(run: Callable[[], tuple[int, float, float]], worker: int, seen: Seen) -> None:
    """One run of one tool, with what it and nginx used meanwhile."""
    before, used, began = _cpu_s(worker), _children_s(), time.monotonic()
    requests, rate, mean_ms = run()
    wall = time.monotonic() - began
    seen.rates.append(rate)
    seen.means_ms.append(mean_ms)
    seen.busy.append((_children_s() - used) / wall)
    seen.server_us.append((_cpu_s(worker) - before) / requests * 1e6)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _output(argv: list[str]) -> str:
    done = subprocess.run(["taskset", "-c", "1", *argv], check=False, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr[-1000:]}{done.stdout[-1000:]}")
    return done.stdout


def _h2load(case: Case, url: str) -> tuple[int, float, float]:
    words = case.arguments.format(h1="--h1", h2="--npn-list=h2").split()
    text = _output([tool("h2load"), *words, url])
    rate = re.search(r"finished in [\d.]+\w+, ([\d.]+) req/s", text)
    count = re.search(r"(\d+) succeeded, 0 failed, 0 errored", text)
    # min, max, mean, sd
    times = re.search(r"^time for request: +\S+ +\S+ +([\d.]+)(us|ms|s) ", text, re.MULTILINE)
    if not (rate and count and times):
        raise RuntimeError(f"h2load: {text[-2000:]}")
    return int(count[1]), float(rate[1]), float(times[1]) * _UNITS[times[2]] * 1000


def _gallop_load(case: Case, url: str) -> tuple[int, float, float]:
    words = case.arguments.format(h1="--h1", h2="--h2").split()
    found = json.loads(_output([str(load_binary()), *words, "--json", url]))
    if found["failed"]:
        raise RuntimeError(f"gallop-load: {found}")
    return found["succeeded"], found["succeeded"] / found["seconds"], found["latency_us"]["mean"] / 1000


def _row(case: Case, seen: dict[str, Seen]) -> str:
    theirs, ours = seen["h2load"], seen["gallop-load"]
    ratio = statistics.median(our / their for our, their in zip(ours.rates, theirs.rates, strict=True))
    bound = [name for name, found in seen.items() if found.is_bound]
    cells = [
        case.title + (f" ({' and '.join(bound)} bound)" if bound else ""),
        *(f"{statistics.median(found.rates):,.1f}" for found in (theirs, ours)),
        f"{ratio:.3f}",
        *(f"{statistics.median(found.means_ms):.3f}" for found in (theirs, ours)),
        *(f"{100 * statistics.median(found.busy):.0f} %" for found in (theirs, ours)),
        *(f"{statistics.median(found.server_us):.1f}" for found in (theirs, ours)),
    ]
    return "| " + " | ".join(cells) + " |"
