"""gallop-load beside h2load: the same load on the same nginx, in turns, by HTTP/1.1 and HTTP/2, in clear and over TLS;
then both beside wrk and hey by HTTP/1.1.

What makes them comparable is that neither is the bottleneck: a link of given bandwidth and delay is (native/netem), so
that both must come to what the link allows. Two connections do not fill it with files of 1 MB, eight do. A tool that
used more than 90 % of a CPU in a case is named: its figures there are its own speed. Needs root.
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
from functools import partial
from pathlib import Path

from agents.host import bench, link
from panel.benchmarks.choices import Tool
from panel.benchmarks.tools.arguments import clean
from panel.benchmarks.tools.commands import Endpoint, command
from panel.benchmarks.tools.parsers import Output, parse
from tests.support.bundled_programs import load_binary, netem_binary
from tests.support.nginx import NginxInstance
from tests.support.process import ServerProcess, tool

ROUNDS = 3
BUSY = 0.90
LINK = {"bandwidth_kbit": 200_000, "rtt_us": 10_000, "queue_packets": 1000}
PORTS = {"plain": 8080, "clear2": 8082, "tls": 8443}
SITE = """
server {{
    listen {far}:{plain}; listen {far}:{clear2} http2; listen {far}:{tls} ssl http2;
    access_log off; keepalive_requests 100000000; root {root}/www;
    ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem;
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
    Case("HTTP/1.1, small page, 1 connection", "-n 200 -c 1 {h1}"),
    Case("HTTP/1.1, small page, 10 connections", "-n 2000 -c 10 {h1}"),
    Case("HTTP/1.1, TLS, small page, 20 connections", "-n 4000 -c 20 {h1}", "tls"),
    Case("HTTP/2, small page, 4 connections, 10 streams", "-n 8000 -c 4 -m 10 {h2}", "clear2"),
    Case("HTTP/2, TLS, small page, 5 connections, 10 streams", "-n 10000 -c 5 -m 10 {h2}", "tls"),
    Case("HTTP/2, TLS, small page, 10 connections, for 2 s", "-D 2 -c 10 {h2}", "tls"),
    Case("HTTP/1.1, files of 1 MB, 8 connections", "-n 80 -c 8 {h1}", "plain", "/1mb"),
    Case("HTTP/1.1, TLS, files of 1 MB, 8 connections", "-n 80 -c 8 {h1}", "tls", "/1mb"),
    Case("HTTP/2, TLS, files of 1 MB, 8 connections", "-n 80 -c 8 {h2}", "tls", "/1mb"),
)
# For all tools with one process: each by time, because wrk knows nothing else.
SECONDS = 3
HTTP_1_CASES = (
    Case("small page, 10 connections", "-D {seconds} -c 10 {h1}"),
    Case("TLS, small page, 20 connections", "-D {seconds} -c 20 {h1}", "tls"),
    Case("files of 1 MB, 8 connections", "-D {seconds} -c 8 {h1}", "plain", "/1mb"),
)


@dataclass
class Seen:
    """Of one tool on one case, a value for each round."""

    rates: list[float] = field(default_factory=list)
    means_ms: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)  # CPU of the tool, 1: one whole CPU

    @property
    def is_bound(self) -> bool:
        return statistics.median(self.busy) > BUSY


class Place:
    """nginx beyond the link."""

    def __init__(self, home: Path) -> None:
        self.folder = home
        (home / "wrk.lua").write_text(bench.WRK_SCRIPT)
        self.nginx = NginxInstance(home)
        openssl = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=a.example"
        files = ["-keyout", str(home / "key.pem"), "-out", str(home / "cert.pem"), "-days", "2"]
        subprocess.run([*openssl.split(), *files], check=True, capture_output=True)
        (home / "www" / "small.html").write_text("x" * 1024)
        (home / "www" / "1mb").write_bytes(os.urandom(1_000_000))
        (home / "conf.d" / "site.conf").write_text(SITE.format(root=home, far=link.FAR, **PORTS))
        self.link = link.made(LINK, str(netem_binary()))
        argv = [self.nginx.binary, "-p", str(home), "-c", str(self.nginx.main_config), "-g", "daemon off;"]
        self.server = ServerProcess(["nsenter", f"--net={self.link.far.path}", "--", *argv], home / "output").start()
        url = f"http://{link.FAR}:{PORTS['plain']}/small.html"
        self.output([tool("curl"), "-sS", "--retry", "30", "--retry-connrefused", "--retry-delay", "1", url])

    def output(self, argv: list[str]) -> str:
        """What a program on this side of the link prints; RuntimeError with its words when it fails."""
        inside = ["nsenter", f"--net={self.link.near.path}", "--", *argv]
        done = subprocess.run(inside, check=False, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr[-1000:]}{done.stdout[-1000:]}")
        return done.stdout

    def close(self) -> None:
        self.server.stop()
        self.link.close()


def main(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    said = subprocess.run([tool("h2load"), "--version"], check=True, capture_output=True, text=True).stdout
    print(f"{said.strip()}; a link of 200 Mbit/s, 10 ms; medians of {ROUNDS} rounds in turns")
    head = ("case", "h2load, /s", "gallop-load, /s", "ratio", "h2load, ms", "gallop-load, ms")
    head += ("CPU of h2load", "CPU of gallop-load")
    print("| " + " | ".join(head) + " |")
    print("|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|")
    place = Place(home)
    try:
        for case in CASES:
            print(_row(case, _rounds(case, place, PAIR)), flush=True)
        _print_all_tools(place)
    finally:
        place.close()


def _print_all_tools(place: Place) -> None:
    print(f"\n| HTTP/1.1, {SECONDS} s | " + " | ".join(f"{name}, /s, ms, its CPU" for name in ALL) + " |")
    print("|---|" + "---:|" * len(ALL))
    for case in HTTP_1_CASES:
        seen = _rounds(case, place, ALL)
        print(f"| {case.title} | " + " | ".join(map(_cell, seen.values())) + " |", flush=True)


def _cell(found: Seen) -> str:
    rate, mean, busy = (statistics.median(values) for values in (found.rates, found.means_ms, found.busy))
    return f"{rate:,.1f}, {mean:.2f}, {100 * busy:.0f} %"


def _rounds(case: Case, place: Place, tools: dict[str, Run]) -> dict[str, Seen]:
    seen = {name: Seen() for name in tools}
    scheme = "https" if case.port == "tls" else "http"
    url = f"{scheme}://{link.FAR}:{PORTS[case.port]}{case.path}"
    for _ in range(ROUNDS):
        for name, run in tools.items():
            _one(lambda run=run: run(place, case, url), seen[name])
    return seen


def _one(run: Callable[[], tuple[float, float]], seen: Seen) -> None:
    """One run of one tool, with what it used meanwhile."""
    used, began = _children_s(), time.monotonic()
    rate, mean_ms = run()
    wall = time.monotonic() - began
    seen.rates.append(rate)
    seen.means_ms.append(mean_ms)
    seen.busy.append((_children_s() - used) / wall)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _h2load(place: Place, case: Case, url: str) -> tuple[float, float]:
    words = case.arguments.format(h1="--h1", h2="--npn-list=h2", seconds=SECONDS).split()
    text = place.output([tool("h2load"), *words, url])
    rate = re.search(r"finished in [\d.]+\w+, ([\d.]+) req/s", text)
    # min, max, mean, sd
    times = re.search(r"^time for request: +\S+ +\S+ +([\d.]+)(us|ms|s) ", text, re.MULTILINE)
    if not (rate and times and " 0 failed, 0 errored" in text):
        raise RuntimeError(f"h2load: {text[-2000:]}")
    return float(rate[1]), float(times[1]) * _UNITS[times[2]] * 1000


def _gallop_load(place: Place, case: Case, url: str) -> tuple[float, float]:
    words = case.arguments.format(h1="--h1", h2="--h2", seconds=SECONDS).split()
    found = json.loads(place.output([str(load_binary()), *words, "--json", url]))
    if found["failed"]:
        raise RuntimeError(f"gallop-load: {found}")
    return found["succeeded"] / found["seconds"], found["latency_us"]["mean"] / 1000


def _other(name: Tool, place: Place, case: Case, url: str) -> tuple[float, float]:
    """wrk or hey with the command and the parser of the panel; the name of the site is its address."""
    connections = int(case.arguments.split("-c ")[1].split()[0])
    arguments = clean(name, {"concurrency": connections, "duration_s": SECONDS, "tls": case.port == "tls"})
    endpoint = Endpoint(link.FAR, PORTS[case.port], link.FAR, tls=case.port == "tls")
    built = command(name, arguments, [case.path], endpoint).argv
    argv = [tool(built[0]), *(part.replace("{workdir}", str(place.folder)) for part in built[1:])]
    # What the agent's script for wrk reads.
    script = [f"PADDOCK_ADDRESS={link.FAR}", f"PADDOCK_PORT={endpoint.port}", f"PADDOCK_WORKDIR={place.folder}"]
    found = parse(name, Output(place.output(["env", *script, *argv])))
    if found.failed or found.non2xx or found.latency_ms.mean is None:
        raise RuntimeError(f"{name}: {found}")
    return found.throughput_rps, found.latency_ms.mean


Run = Callable[[Place, Case, str], tuple[float, float]]
PAIR: dict[str, Run] = {"h2load": _h2load, "gallop-load": _gallop_load}
ALL: dict[str, Run] = {**PAIR, "wrk": partial(_other, Tool.WRK), "hey": partial(_other, Tool.HEY)}


def _row(case: Case, seen: dict[str, Seen]) -> str:
    theirs, ours = seen["h2load"], seen["gallop-load"]
    ratio = statistics.median(our / their for our, their in zip(ours.rates, theirs.rates, strict=True))
    bound = [name for name, found in seen.items() if found.is_bound]
    cells = [
        case.title + (f" ({' and '.join(bound)} bound)" if bound else ""),
        *(f"{statistics.median(found.rates):,.1f}" for found in (theirs, ours)),
        f"{ratio:.3f}",
        *(f"{statistics.median(found.means_ms):.2f}" for found in (theirs, ours)),
        *(f"{100 * statistics.median(found.busy):.0f} %" for found in (theirs, ours)),
    ]
    return "| " + " | ".join(cells) + " |"
