"""Suite `http3-2019`: h2load over emulated links, with HTTP/3 and, for comparison, HTTP/2 and HTTP/1.1."""

from __future__ import annotations

import shlex
from typing import Any

from panel.benchmarks.choices import Tool
from panel.benchmarks.suites import published
from panel.benchmarks.suites.definitions import PROTOCOLS, Case, Content, Network, Settings, Setup, Suite
from panel.benchmarks.tools.arguments import Value

SLUG = "http3-2019"
_NAMES = {"-n": "requests", "-c": "concurrency", "-m": "streams", "-t": "threads"}
_TITLES = {
    "small-short": "Small page, few requests per connection",
    "small-long": "Small page, many requests per connection",
    "small-multiplexed": "Small page, ten concurrent streams",
    "small-million": "Small page, one million requests",
    "file-10mb": "One file of 10 MB",
    "file-100mb": "One file of 100 MB",
    "file-1gb": "One file of 1 GB",
    "shallow-queue": "One file of 10 MB through a deep and a shallow queue",
}
_MB = 1_000_000
_SIZES = {"/10mb": 10 * _MB, "/100mb": 100 * _MB, "/1gb": 1000 * _MB, "/1mb": _MB, "/200kb": 200_000}


def _arguments(words: str) -> dict[str, Value]:
    parts = shlex.split(words)
    return {_NAMES[name]: int(value) for name, value in zip(parts[::2], parts[1::2], strict=True)}


def _case(source: dict[str, Any], number: int, row: dict[str, Any], protocol: str, **changed: Any) -> Case:
    """Build the case that repeats one row of a published table with one protocol.
    `changed` are values that differ from the publication, for a preview.
    """
    link = Network(row["bandwidth_mbps"], row.get("rtt_ms") or 0, row.get("queue_packets", 1000))
    path = changed.get("path", source["path"])
    arguments = {**_arguments(source["args"]), **changed.get("arguments", {})}
    if protocol == "h1":
        arguments["streams"] = 1
        # HTTP/1.1 has a tenth of the concurrency: the same number of requests would take ten times as long.
        arguments["requests"] = changed.get("h1_requests", arguments["requests"])
    arguments |= {"protocol": protocol, "tls": True}
    is_file = source["unit"] == "s"
    title = changed.get("title", _TITLES[source["id"]])
    # A suffix with the same type on every server; OpenLiteSpeed sends no type without one.
    served = f"{path}.bin" if is_file else path
    return Case(
        slug=f"{source['id']}-{number}-{protocol}",
        title=f"{title}: {link.words}, {PROTOCOLS[protocol]}",
        tool=Tool.H2LOAD,
        arguments=arguments,
        paths=(served,),
        figure="total_s" if is_file else "throughput_rps",
        rounds=changed.get("rounds", 3),
        # A warm-up over a slow link would take as long as the round; the earlier check has warmed the page cache.
        warmup_s=0 if is_file else changed.get("warmup_s", 2),
        timeout_s=1800,
        idle_s=changed.get("idle_s", 0.5),
        network=link,
        source=source["id"],
        row=number,
        as_published="path" not in changed,
        sizes=((served[1:], _SIZES[path]),) if is_file else (),
        group=title,
    )


def _full() -> tuple[Case, ...]:
    return tuple(
        _case(source, number, row, protocol)
        for source in published.suite(SLUG)["cases"]
        for number, row in enumerate(source["rows"])
        for protocol in PROTOCOLS
    )


def _short() -> tuple[Case, ...]:
    """Return the cases of the preview: two published cases with fewer requests.
    One requests a small page at the shortest delay, with each protocol; the other requests a file through a short
    queue, with HTTP/3.
    """
    chosen: dict[str, tuple[int, dict[str, Any]]] = {
        "small-multiplexed": (
            2,
            {"arguments": {"requests": 6000, "concurrency": 10, "threads": 1}, "h1_requests": 800, "warmup_s": 0},
        ),
        "shallow-queue": (1, {"path": "/200kb", "title": "One file of 200 kB through a shallow queue"}),
    }
    cases = []
    for source in published.suite(SLUG)["cases"]:
        if source["id"] in chosen:
            number, changed = chosen[source["id"]]
            row = source["rows"][number]
            protocols = ["h3"] if source["id"] == "shallow-queue" else list(PROTOCOLS)
            cases += [_case(source, number, row, protocol, idle_s=0.1, **changed) for protocol in protocols]
    return tuple(cases)


SUITE = Suite(
    slug=SLUG,
    title="HTTP/3 over emulated links",
    about=(
        "Requests a small page and large files over links with set bandwidth, delay, and queue, using "
        "HTTP/3, HTTP/2, and HTTP/1.1 with TLS. Each web server has one worker."
    ),
    source=published.suite(SLUG)["source"],
    setups=(
        Setup("nginx", "nginx", "nginx", "nginx"),
        Setup("gallop", "gallop", "native", protocols=("h1", "h2", "h3")),
        Setup("apache", "Apache", "apache"),
        Setup("openlitespeed", "OpenLiteSpeed", "openlitespeed", "openlitespeed", protocols=("h1", "h2", "h3")),
    ),
    # The publication allowed 10,000 requests per connection; a million over a hundred need as many plus one.
    settings=Settings(workers=1, keepalive_requests=100_000_000, one_process=True),
    content=Content(texts=(("index.html", "x" * 162 + "\n"),)),
    table="grid",
    not_measured=("HTTP/3 on Apache, which does not support it, and on nginx builds without the HTTP/3 module.",),
    full=_full(),
    short=_short(),
)
