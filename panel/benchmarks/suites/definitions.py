"""Data types of suites: networks, configurations, applications, and cases, without hosts, ports or database rows.

A suite puts configurations (a web server with its settings) into a test bed and runs cases on them, one run for each
case. A case contains every value that affects its figures, so that its run can be repeated and judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from panel.benchmarks.choices import Tool
from panel.benchmarks.records import LinkMeasurement
from panel.benchmarks.tools.arguments import Value
from panel.rendering.spec import EngineName

PresetName = Literal["full", "short"]
# Layout of the source's tables: each round with average and rating; one figure by link and protocol; many measures.
TableKind = Literal["rounds", "grid", "measures"]
PRESETS: tuple[PresetName, ...] = ("short", "full")
PROTOCOLS = {"h3": "HTTP/3", "h2": "HTTP/2", "h1": "HTTP/1.1"}


@dataclass(frozen=True)
class Network:
    """An emulated network link, the same in both directions. `queue_packets` is the length of the bottleneck's
    queue.
    """

    bandwidth_mbps: float
    rtt_ms: float
    queue_packets: int = 1000
    jitter_ms: float = 0.0
    loss_percent: float = 0.0

    def request(self) -> dict[str, int]:
        """Return the link as the agent expects it in a request (agents/host/link.py)."""
        return {
            "bandwidth_kbit": round(self.bandwidth_mbps * 1000),
            "rtt_us": round(self.rtt_ms * 1000),
            "queue_packets": self.queue_packets,
            "jitter_us": round(self.jitter_ms * 1000),
            "loss_ppm": round(self.loss_percent * 10_000),
        }

    def deviations(self, measured: LinkMeasurement) -> list[str]:
        """Describe, in words, the properties of a measured link that differ too much from this link; [] if none do.
        `measured` is in the format of native/netem/src/measure.rs (to_json).
        """
        found = []
        rtt_ms = measured["rtt_us"]["p50"] / 1000
        if abs(rtt_ms - self.rtt_ms) > max(1.0, 0.05 * self.rtt_ms) + self.jitter_ms:
            found.append(f"the round trip took {rtt_ms:.2f} ms instead of {self.rtt_ms:g} ms")
        # Between two hosts, the real network path is part of the link.
        whole_ms = measured.get("whole_rtt_us", measured["rtt_us"])["p50"] / 1000
        if not found and whole_ms - self.rtt_ms > max(1.0, 0.05 * self.rtt_ms) + self.jitter_ms:
            found.append(f"the round trip to the other host took {whole_ms:.2f} ms instead of {self.rtt_ms:g} ms")
        for way, kbit in measured["rate_kbit"].items():
            if abs(kbit / 1000 / self.bandwidth_mbps - 1) > 0.05 + self.loss_percent / 100:
                found.append(f"{way} bandwidth was {kbit / 1000:.2f} Mbit/s instead of {self.bandwidth_mbps:g} Mbit/s")
        sent, came = measured["burst"]
        if came < sent and not self.loss_percent:
            found.append(f"{sent - came} of {sent} packets were dropped before the queue was full")
        return found

    @property
    def words(self) -> str:
        parts = [f"{self.bandwidth_mbps:g} Mbit/s", f"{self.rtt_ms:g} ms"]
        parts += [f"queue {self.queue_packets}"] if self.queue_packets != 1000 else []
        parts += [f"jitter {self.jitter_ms:g} ms"] if self.jitter_ms else []
        parts += [f"loss {self.loss_percent:g} %"] if self.loss_percent else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Setup:
    """One configuration of a web server. `protocols` are the supported protocols; `published` is the name of the
    configuration in the publication.
    """

    slug: str
    label: str
    engine: EngineName
    published: str = ""
    mpm: str = "event"  # Apache's multi-processing module
    php_children: int = 0  # number of its own PHP children; 0: no PHP
    # php-fpm by FastCGI; lsphp by LSAPI, either at an address or started by the server, which only OpenLiteSpeed does.
    php: Literal["fpm", "lsphp-tcp", "lsphp-started"] = "fpm"
    protocols: tuple[str, ...] = ("h1", "h2")


@dataclass(frozen=True)
class Settings:
    """Settings of every web server in the test bed. The access log is always off."""

    workers: int = 0  # for nginx and gallop; 0: one per CPU
    keepalive_requests: int = 0  # per connection; 0: the server's own default
    one_process: bool = False  # Apache also serves from one process, with enough threads for the load


@dataclass(frozen=True)
class Content:
    """Files in the document root, by path: `texts` with their text, `sizes` with a size in bytes and generated
    content.
    """

    texts: tuple[tuple[str, str], ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Application:
    """An application whose pages a suite requests. `ready_made` is the agent's name for an application that the agent
    installs, "" if all files are in `content`.
    """

    slug: str
    label: str
    about: str
    content: Content
    paths: tuple[str, ...]  # requested paths
    ready_made: str = ""
    # For a shortened case: without a warm-up, or with one second, the result of a large application would include PHP's
    # compilation.
    short_warmup_s: int = 0
    short_duration_s: int = 1


@dataclass(frozen=True)
class Case:
    """One load, measured in one run on every configuration that supports its protocol.

    `figure` is the name of the figure that the result table shows (a key in summary.FIGURES). `source` is the id of the
    case in the publication, `row` its row in the published table.
    """

    slug: str
    title: str
    tool: Tool
    arguments: dict[str, Value]
    paths: tuple[str, ...]
    figure: str = "throughput_rps"
    rounds: int = 3
    warmup_s: int = 2
    timeout_s: int = 600
    idle_s: float = 0.5
    network: Network | None = None
    source: str = ""
    row: int = 0
    as_published: bool = True  # False if a shortened case differs from the source
    sizes: tuple[tuple[str, int], ...] = ()  # in addition to the suite's content
    parser: bool = False  # siege fetches linked resources, in a network where only the test bed is reachable
    allowed_error_percent: float = 0.0
    browses: bool = False  # its paths are pages of the chosen application
    group: str = ""  # common name of the rows of one published case; "": its title

    @property
    def protocol(self) -> str:
        return str(self.arguments.get("protocol", "h1"))

    def stored(self) -> dict[str, object]:
        """Return the case as JSON, to be stored with a suite run."""
        return {**asdict(self), "tool": self.tool.value}


def stored_network(data: dict[str, Any] | None) -> Network | None:
    return Network(**data) if data else None


@dataclass(frozen=True)
class Suite:
    slug: str
    title: str
    about: str
    source: str
    setups: tuple[Setup, ...]
    settings: Settings
    content: Content
    full: tuple[Case, ...]
    short: tuple[Case, ...]
    table: TableKind
    applications: tuple[Application, ...] = ()  # the first is the default
    not_measured: tuple[str, ...] = ()  # parts of the source that this suite lacks, in words

    def cases(self, preset: PresetName) -> tuple[Case, ...]:
        return self.full if preset == "full" else self.short

    def application(self, slug: str) -> Application | None:
        """Return the suite's application with this slug; for "", the first application. None if the suite has no such
        application.
        """
        return next((item for item in self.applications if slug in ("", item.slug)), None)

    def setup(self, slug: str) -> Setup:
        return next(setup for setup in self.setups if setup.slug == slug)


def speaking(case: Case, setups: Sequence[Setup]) -> list[Setup]:
    """Return the configurations that support the case's protocol."""
    return [setup for setup in setups if case.protocol in setup.protocols]


def stored_case(data: dict[str, Any]) -> Case:
    """Convert JSON of `Case.stored` back to a Case."""
    return Case(
        **{
            **data,
            "tool": Tool(data["tool"]),
            "paths": tuple(data["paths"]),
            "network": stored_network(data["network"]),
            "sizes": tuple((name, size) for name, size in data["sizes"]),
        }
    )
