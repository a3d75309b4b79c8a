"""Build the argv list of a load tool, and its input files, from validated arguments. Pure functions.

Each tool reaches a name-based virtual host on one listener in its own way:

- h2load: URLs hold the site's name (Host, :authority, SNI), `--connect-to` the listener.
- wrk: the URL holds the site's name; the agent's script connects to the listener.
- ab: the URL holds the listener, `-H Host:` the name; ab takes SNI from that header, so with TLS it has no port.
- siege: like ab without TLS. With TLS, siege takes SNI from the URL only, so the name must resolve to the listener's
  address on the host; otherwise the agent rejects the command.
- hey: like ab, with `-host`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from panel.benchmarks.choices import Tool
from panel.benchmarks.tools.arguments import Arguments, method_and_path

# ab allocates memory for every possible request; a run limited by time must still set their number.
_AB_REQUESTS_PER_S = 100_000
_AB_MOST_REQUESTS = 20_000_000
_ANSWER_TIMEOUT_S = 30
# hey's default report rounds to tenths of milliseconds. `-o` also takes a Go template, which prints unrounded figures.
# Failures come last, one per line, because hey garbles a % in the URL of a failure, which would make JSON invalid.
_HEY_REPORT = (
    '{"requests":{{.NumRes}},"kept":{{len .Lats}},"seconds":{{.Total.Seconds}},"latency_sum_s":{{.AvgTotal}},'
    '"fastest_s":{{.Fastest}},"slowest_s":{{.Slowest}},"percentiles":{{jsonify .LatencyDistribution}},'
    '"statuses":{{jsonify .StatusCodeDist}}}'
    '{{range $error, $count := .ErrorDist}}{{"\\n"}}{{$count}} {{$error}}{{end}}'
)
# The load generator of native/load, used if the host's h2load lacks HTTP/3 or a method.
BUNDLED = "gallop-load"


@dataclass(frozen=True)
class Endpoint:
    """One listener of a site, and the host name that requests to the listener contain."""

    address: str  # literal IPv4 or IPv6 address
    port: int
    name: str  # host name; the address if the site has no name
    tls: bool = False
    known_port: int = 0  # the public port, if this listener replaces another; 0: its own

    @property
    def target(self) -> str:
        return f"{_bracketed(self.address)}:{self.port}"

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def authority(self) -> str:
        usual = {"http": 80, "https": 443}[self.scheme]
        port = self.known_port or self.port
        return _bracketed(self.name) if port == usual else f"{_bracketed(self.name)}:{port}"

    @property
    def sni_authority(self) -> str:
        """Host header for load tools that also send its value as SNI, which must not contain a port (RFC 6066, 3)."""
        return _bracketed(self.name) if self.tls else self.authority

    @property
    def base_url(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def direct_url(self) -> str:
        return f"{self.scheme}://{self.target}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True)
class Command:
    argv: list[str]
    input_files: dict[str, str] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)


def command(
    tool: Tool,
    arguments: Arguments,
    paths: list[str],
    endpoint: Endpoint,
    *,
    seconds: int = 0,
    parser: bool = False,
    bundled: int = 0,
) -> Command:
    """Return the command of a load tool for one round, or for a warm-up of `seconds`.

    `parser`: whether siege also fetches images and other resources of a page. They can be on any host, so the agent
    allows this only in a test bed without other network access. `bundled`: number of threads of the bundled load
    generator, which replaces h2load; 0 means h2load.
    """
    values = dict(arguments)
    if seconds:
        values.update(duration_s=seconds)
        if "requests" in values:
            values.update(requests=None)
    if bundled:
        return _bundled(values, paths, endpoint, bundled)
    if tool == Tool.SIEGE:
        return _siege(values, paths, endpoint, parser=parser)
    builders = {Tool.AB: _ab, Tool.H2LOAD: _h2load, Tool.WRK: _wrk, Tool.HEY: _hey}
    return builders[tool](values, paths, endpoint)


def _ab(values: Arguments, paths: list[str], endpoint: Endpoint) -> Command:
    argv = ["ab", "-q", "-r", "-s", str(_ANSWER_TIMEOUT_S), "-c", str(values["concurrency"])]
    if values["duration_s"]:
        seconds = int(values["duration_s"])
        # -t sets -n to 50,000, so -n must follow it.
        argv += ["-t", str(seconds), "-n", str(min(seconds * _AB_REQUESTS_PER_S, _AB_MOST_REQUESTS))]
    else:
        argv += ["-n", str(values["requests"])]
    argv += ["-k"] if values["keepalive"] else []
    argv += ["-l"] if values["dynamic"] else []
    argv += ["-H", "Accept-Encoding: gzip"] if values["gzip"] else []
    argv += ["-e", "{workdir}/percentiles.csv", "-H", f"Host: {endpoint.sni_authority}"]
    argv += [endpoint.direct_url + paths[0]]
    return Command(argv, outputs=["percentiles.csv"])


def _h2load(values: Arguments, paths: list[str], endpoint: Endpoint) -> Command:
    argv = ["h2load", "-c", str(values["concurrency"]), "-t", str(values["threads"]), "-m", str(values["streams"])]
    if values["duration_s"]:
        argv += ["-D", str(values["duration_s"])]
    else:
        argv += ["-n", str(values["requests"])]
    argv += {"h1": ["--h1"], "h2": ["--npn-list=h2"], "h3": ["--npn-list=h3"]}[str(values["protocol"])]
    argv += [f"--rps={values['rate_rps']}"] if values["rate_rps"] else []
    argv += ["-H", "accept-encoding: gzip"] if values["gzip"] else []
    argv += ["--log-file={workdir}/requests.log", f"--connect-to={endpoint.target}", "-i", "{workdir}/urls"]
    return Command(argv, {"urls": _lines(endpoint.base_url + path for path in paths)})


def _bundled(values: Arguments, paths: list[str], endpoint: Endpoint, threads: int) -> Command:
    """Return the command of the bundled load generator, which has h2load's options and prints JSON."""
    argv = [BUNDLED, f"--{values['protocol']}", "-c", str(values["concurrency"]), "-m", str(values["streams"])]
    argv += ["-t", str(threads)]
    argv += ["-D", str(values["duration_s"])] if values["duration_s"] else ["-n", str(values["requests"])]
    argv += [f"--rps={values['rate_rps']}"] if values["rate_rps"] else []
    argv += ["-H", "accept-encoding: gzip"] if values["gzip"] else []
    argv += ["--json", "--connect-to", endpoint.target, "-i", "{workdir}/urls"]
    asked = [method_and_path(path) for path in paths]
    lines = (("" if method == "GET" else method + " ") + endpoint.base_url + path for method, path in asked)
    return Command(argv, {"urls": _lines(lines)})


def _wrk(values: Arguments, paths: list[str], endpoint: Endpoint) -> Command:
    argv = ["wrk", "-c", str(values["concurrency"]), "-t", str(values["threads"]), "-d", f"{values['duration_s']}s"]
    argv += ["--timeout", f"{_ANSWER_TIMEOUT_S}s", "--latency", "-s", "{workdir}/wrk.lua"]
    argv += [] if values["keepalive"] else ["-H", "Connection: close"]
    argv += ["-H", "Accept-Encoding: gzip"] if values["gzip"] else []
    method, path = method_and_path(paths[0])
    argv += [endpoint.base_url + path]
    # One path needs no list; wrk then prepares its single request once and runs no script in the loop.
    plain = len(paths) == 1 and method == "GET"
    return Command(argv, {} if plain else {"urls": _lines(paths)})


def _siege(values: Arguments, paths: list[str], endpoint: Endpoint, *, parser: bool) -> Command:
    concurrency = int(values["concurrency"] or 1)
    argv = ["siege", "-R", "{workdir}/siegerc", "-b", "-c", str(concurrency)]
    if values["duration_s"]:
        argv += ["-t", f"{values['duration_s']}S"]
    else:
        argv += ["-r", str(int(values["requests"] or concurrency) // concurrency)]
    base = replace(endpoint, known_port=0).base_url if endpoint.tls else endpoint.direct_url
    argv += [] if endpoint.tls else ["-H", f"Host: {endpoint.authority}"]
    # Redirects, like the parser, would send load wherever a page points.
    settings = {
        "accept-encoding": "gzip" if values["gzip"] else "",
        "benchmark": "true",
        "cache": "false",
        "color": "off",
        "connection": "keep-alive" if values["keepalive"] else "close",
        "failures": "1000000000",
        "follow-location": "false",
        "json_output": "true",
        "limit": str(concurrency + 1),
        "logging": "false",
        "parser": "true" if parser else "false",
        "protocol": "HTTP/1.1",
        "quiet": "true",
        "show-logfile": "false",
        "timeout": str(_ANSWER_TIMEOUT_S),
        "verbose": "false",
    }
    files = {
        "siegerc": _lines(f"{name} = {value}" for name, value in settings.items()),
        "urls": _lines(base + path for path in paths),
    }
    return Command([*argv, "-f", "{workdir}/urls"], files)


def _hey(values: Arguments, paths: list[str], endpoint: Endpoint) -> Command:
    argv = ["hey", "-c", str(values["concurrency"]), "-cpus", str(values["threads"]), "-t", str(_ANSWER_TIMEOUT_S)]
    argv += ["-z", f"{values['duration_s']}s"] if values["duration_s"] else ["-n", str(values["requests"])]
    # Redirects would send load wherever a page points.
    argv += ["-disable-redirects", "-disable-compression"]
    argv += [] if values["keepalive"] else ["-disable-keepalive"]
    argv += ["-H", "Accept-Encoding: gzip"] if values["gzip"] else []
    return Command([*argv, "-o", _HEY_REPORT, "-host", endpoint.sni_authority, endpoint.direct_url + paths[0]])


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
