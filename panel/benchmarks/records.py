"""Shapes of the JSON objects that a run stores in its columns, and of the results of the agent.
Each class documents one JSON object. The objects stay plain dictionaries, because database rows, exports and the API
use them unchanged.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from panel.benchmarks.tools.arguments import Arguments

Samples = dict[str, list[list[float]]]  # by process tree: [[t_s, cpu_percent, rss_bytes], ...]


class TestbedParameters(TypedDict):
    """Run.parameters["testbed"]: the definition of a test bed."""

    suite: str
    case: dict[str, Any]  # suites/definitions.py Case.stored()
    application: str
    link: str
    load_host: NotRequired[int]  # primary key of the host that generates the load, if it is another


class Parameters(TypedDict):
    """Run.parameters: the scenario, copied when the run was created."""

    name: str
    tool: str
    arguments: Arguments
    paths: list[str]
    rounds: int
    warmup_s: float
    timeout_s: float
    allowed_error_percent: float
    idle_s: NotRequired[float]
    testbed: NotRequired[TestbedParameters]


class ToolFacts(TypedDict):
    version: str
    h3: NotRequired[bool]


class HostFacts(TypedDict, total=False):
    """Facts of one host that affect measurements (agents/host/fingerprint.py). Older runs lack some of them."""

    kernel: str
    machine: str
    boot_id: str
    boot: str
    cpu_model: str
    cpus: int
    cpus_usable: int
    governor: str
    memory_bytes: int
    sysctls: dict[str, str]
    tools: dict[str, ToolFacts]
    programs: dict[str, str]  # bundled programs: SHA-256 by name


class Response(TypedDict, total=False):
    """One response of a web server (agents/host/answers.py). Only `error` is set if the server did not respond."""

    error: str
    status: int
    sha256: str
    bytes: int
    encoding: str
    type: str
    start: str
    headers: dict[str, str]


class ServerFacts(TypedDict):
    """State of the web server of one target at the time of the measurement."""

    engine: str
    version: str
    workers: int
    revision: int | None
    digest: NotRequired[str]
    setup: NotRequired[str]


class TargetFacts(ServerFacts):
    """One target in a run's fingerprint. `content` maps each path to the web server's response."""

    label: str
    host: str
    base_url: str
    listener: str
    content: dict[str, Response]


class LinkMeasurement(TypedDict):
    """Measured properties of an emulated network link (native/netem/src/measure.rs, to_json)."""

    rtt_us: dict[str, float]  # percentiles: "p50", "p99"
    burst: tuple[int, int]  # packets sent, packets arrived
    rate_kbit: dict[str, float]  # "forward", "backward"
    whole_rtt_us: NotRequired[dict[str, float]]
    by: NotRequired[str]
    why: NotRequired[str]


class Link(TypedDict):
    """An emulated network link: its requested properties (agents/host/link.py) and its measured properties."""

    asked: dict[str, int]
    measured: LinkMeasurement


class ServerProcess(TypedDict):
    pid: int


class TestbedFacts(TypedDict, total=False):
    """Facts from the agent about the part of a test bed on one host. They help to find what the part left there."""

    namespaces: list[str]
    tick: int
    boot: str


class Fingerprint(TypedDict):
    """Run.fingerprint: the conditions that must be equal for two measurements to be comparable."""

    hosts: dict[str, HostFacts]
    targets: list[TargetFacts]
    network: NotRequired[Link]
    load_from: NotRequired[str]
    testbeds: NotRequired[dict[str, TestbedFacts]]


class TestbedUp(TestbedFacts):
    """Event that the agent sends when all servers of a test bed on its host respond."""

    state: str
    servers: dict[str, ServerProcess]
    network: NotRequired[LinkMeasurement]


class Spread(TypedDict):
    """A value with its confidence interval. `low` and `high` are None if there are too few rounds for an interval."""

    value: float
    low: float | None
    high: float | None


class FigureEstimate(Spread):
    """The median of a figure over the rounds of one target, with its confidence interval; `confidence` is 0 to 1."""

    confidence: float | None
    rounds: int


class FigureRatio(FigureEstimate):
    verdict: str  # statistics/intervals.py Verdict


class TargetSummary(TypedDict):
    position: int
    label: str
    engine: str
    figures: dict[str, FigureEstimate]
    curve: list[list[float]]  # [[percent, ms], ...]


class HistoryPoint(Spread):
    """A figure of one target in one run. `at` is the time when the run ended, in ISO 8601."""

    at: str
    label: str
    title: str


class RatioSummary(TypedDict):
    """Figures of a target divided by those of the first target, whose label is `baseline`."""

    position: int
    label: str
    baseline: str
    figures: dict[str, FigureRatio]


class Summary(TypedDict, total=False):
    """Run.summary: the statistics of a run; empty until the run has ended."""

    targets: list[TargetSummary]
    ratios: list[RatioSummary]


class BenchOutcome(TypedDict):
    """The agent's result of one round (BenchResult in agents/protocol.py). `before`: the reason for each repetition of
    the round.
    """

    exit_code: int
    stdout: str
    stderr: str
    samples: Samples
    cpu_s: dict[str, float]
    phases: list[list[Any]]
    outputs: dict[str, str]
    latency: dict[str, Any]
    stopped: str
    open_files: int
    disk_full: bool
    server_log: NotRequired[str]
    before: NotRequired[list[str]]
