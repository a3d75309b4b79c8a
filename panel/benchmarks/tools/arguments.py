"""Arguments of each load tool: named, typed, bounded values; never a command line.

All user input passes through `clean` and `clean_paths` before `commands.py` builds an argv list from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from panel.benchmarks.choices import Tool

Value = int | bool | str | None
Arguments = dict[str, Value]

# Safe methods, which a replay sends as logged.
SAFE_METHODS = ("GET", "HEAD")
# Methods that a replay sends only on request; they are complete without a body. PUT and PATCH are excluded, because
# they need one.
OTHER_METHODS = ("POST", "DELETE", "OPTIONS")
MAX_PATHS = 100
MAX_PATH_LENGTH = 2000
# RFC 3986 pchar, "/" and "?" without the characters that have a special meaning in some tool, file or shell.
_PATH = re.compile(r"/[A-Za-z0-9._~%:@!*+,=&/?-]*")


class ArgumentError(ValueError):
    """Raised for invalid arguments of a load tool.
    `errors` maps the name of each invalid argument ("" for all arguments together) to the problem and the solution.
    """

    def __init__(self, errors: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {text}" if name else text for name, text in errors.items()))
        self.errors = errors


@dataclass(frozen=True)
class Field:
    """Definition of one argument of a load tool. Integers are within [low, high]. An argument without `default` is
    optional.
    """

    name: str
    kind: Literal["integer", "boolean", "choice"]
    label: str
    help: str = ""
    unit: str = ""
    low: int = 1
    high: int = 1
    choices: tuple[tuple[str, str], ...] = ()
    default: Value = None


_PROTOCOLS = {"h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3"}
REQUESTS = Field(
    "requests",
    "integer",
    "Requests",
    "Requests per round, for example `10000`. Leave empty if you set seconds.",
    "",
    1,
    100_000_000,
)
DURATION = Field(
    "duration_s",
    "integer",
    "Seconds",
    "Length of each round, for example `10`. Leave empty if you set a number of requests.",
    "s",
    1,
    3600,
)
CONCURRENCY = Field("concurrency", "integer", "Concurrent connections", "", "", 1, 10_000, default=10)
THREADS = Field(
    "threads",
    "integer",
    "Threads",
    "At most one thread per connection; one thread per CPU is enough.",
    "",
    1,
    64,
    (),
    1,
)
STREAMS = Field("streams", "integer", "Streams per connection", "Only for HTTP/2 and HTTP/3.", "", 1, 1000, (), 1)
KEEPALIVE = Field(
    "keepalive", "boolean", "Keep connections open", "Turn off to open a new connection for each request.", default=True
)
RATE = Field(
    "rate_rps",
    "integer",
    "Requests per second per connection",
    "Leave empty to send the next request as soon as a response arrives.",
    "/s",
    1,
    1_000_000,
)
GZIP = Field("gzip", "boolean", "Accept gzip", "Sends the header `Accept-Encoding: gzip`.", default=False)
TLS = Field("tls", "boolean", "Use TLS", "Sends requests to a TLS address of the site.", default=False)
DYNAMIC = Field(
    "dynamic",
    "boolean",
    "Responses differ between requests",
    "Compares only status, content type, and encoding between sites, not the bodies.",
    default=False,
)


def _protocol(*names: str) -> Field:
    choices = tuple((name, _PROTOCOLS[name]) for name in names)
    return Field("protocol", "choice", "Protocol", choices=choices, default=names[0])


@dataclass(frozen=True)
class ToolForm:
    """Description of a load tool, and its arguments in display order."""

    summary: str
    limits: str
    fields: tuple[Field, ...]
    max_paths: int = MAX_PATHS
    # Methods that the tool sends correctly in a mix. wrk and h2load (HTTP/1.1) wait for the body announced by a HEAD
    # response, and siege sends HEAD as GET; the bundled load generator replaces h2load for these (measuring.py).
    methods: tuple[str, ...] = ("GET",)
    # Whether every connection sends the same number of requests, so that their total is a multiple of it.
    same_per_connection: bool = False

    def field(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)


TOOLS: dict[Tool, ToolForm] = {
    Tool.AB: ToolForm(
        "ApacheBench: one URL, one thread, HTTP/1.0 with or without keep-alive.",
        "Reports whole percentiles up to 99 and the maximum to the microsecond; the mean to the millisecond. "
        "Over TLS, the Host header has no port.",
        (REQUESTS, DURATION, CONCURRENCY, KEEPALIVE, TLS, GZIP, DYNAMIC),
        max_paths=1,
    ),
    Tool.H2LOAD: ToolForm(
        "Load generator of nghttp2: HTTP/1.1, HTTP/2, and HTTP/3. If the host's build lacks HTTP/3, "
        "Paddock's own load generator replaces it.",
        "Reports every latency to the microsecond. Over HTTP/2, h2load does not reconnect after the "
        "server closes a connection.",
        (REQUESTS, DURATION, CONCURRENCY, THREADS, STREAMS, _protocol("h1", "h2", "h3"), TLS, RATE, GZIP, DYNAMIC),
        methods=(*SAFE_METHODS, *OTHER_METHODS),
    ),
    Tool.WRK: ToolForm(
        "wrk: lowest CPU use per request, HTTP/1.1, fixed duration.",
        "Reports percentiles to the microsecond; wrk corrects them for requests that it could not send on time.",
        (
            replace(DURATION, default=10, help="Length of each round, for example `10`."),
            CONCURRENCY,
            THREADS,
            KEEPALIVE,
            TLS,
            GZIP,
            DYNAMIC,
        ),
        methods=("GET", *OTHER_METHODS),
    ),
    Tool.SIEGE: ToolForm(
        "siege: simulated users who visit a list of URLs, HTTP/1.1.",
        "Reports only mean and maximum, rounded to 10 ms. With TLS, the site's name must resolve to its host.",
        (REQUESTS, DURATION, replace(CONCURRENCY, high=1000), KEEPALIVE, TLS, GZIP, DYNAMIC),
        same_per_connection=True,
    ),
    Tool.HEY: ToolForm(
        "hey: one URL, HTTP/1.1, written in Go.",
        "Reports percentiles up to 99 and the maximum to the microsecond, but no number of bytes. Keeps at most "
        "1,000,000 responses per round, and counts a response whose body ends early as complete. Over TLS, the Host "
        "header has no port.",
        (
            replace(REQUESTS, high=1_000_000),
            DURATION,
            # Go's transport keeps at most 500 idle connections for hey.
            replace(CONCURRENCY, high=500),
            THREADS,
            KEEPALIVE,
            TLS,
            GZIP,
            DYNAMIC,
        ),
        max_paths=1,
        same_per_connection=True,
    ),
}


def clean(tool: str, raw: Mapping[str, Any]) -> Arguments:
    """Return the validated arguments of a load tool, with defaults for missing arguments. Raises one ArgumentError that
    names every invalid argument.
    """
    if tool not in Tool.values:
        raise ArgumentError({"": f"Unknown load tool {tool!r}. Choose one of {', '.join(Tool.values)}."})
    form = TOOLS[Tool(tool)]
    if not isinstance(raw, Mapping):
        raise ArgumentError({"": "Send the arguments as a JSON object of names and values."})
    known = {field.name for field in form.fields}
    errors = {
        str(name): f"{tool} has no such argument. Known arguments: {', '.join(sorted(known))}."
        for name in raw
        if name not in known
    }
    values: Arguments = {}
    for field in form.fields:
        try:
            values[field.name] = _value(field, raw.get(field.name))
        except ValueError as error:
            errors[field.name] = str(error)
    if not errors:
        errors = _together(Tool(tool), values)
    if errors:
        raise ArgumentError(errors)
    return values


def _value(field: Field, raw: Any) -> Value:
    if raw is None or raw == "":
        return field.default
    if field.kind == "boolean":
        if isinstance(raw, bool):
            return raw
        raise ValueError("Send true or false.")
    if field.kind == "choice":
        names = [name for name, _ in field.choices]
        if isinstance(raw, str) and raw in names:
            return raw
        raise ValueError(f"Choose one of {', '.join(names)}.")
    return _integer(field, raw)


def _integer(field: Field, raw: Any) -> int:
    wanted = f"Enter a whole number from {field.low} to {field.high}."
    if isinstance(raw, str) and raw.isascii() and raw.isdecimal() and len(raw) <= 12:
        raw = int(raw)
    if isinstance(raw, bool) or not isinstance(raw, int) or not field.low <= raw <= field.high:
        raise ValueError(wanted)
    return raw


def _together(tool: Tool, values: Arguments) -> dict[str, str]:
    """Check that arguments which are valid alone are also valid together. Return {argument: error}; {} if all are
    valid.
    """
    requests, duration = values.get("requests"), values["duration_s"]
    concurrency, threads = values["concurrency"], values.get("threads", 1)
    assert isinstance(concurrency, int) and isinstance(threads, int)
    errors = {}
    if requests is None and duration is None:
        errors["duration_s"] = "Set the length of a round: a number of requests, or seconds."
    if requests is not None and duration is not None:
        errors["duration_s"] = "Set either requests or seconds, and leave the other field empty."
    if threads > concurrency:
        errors["threads"] = f"Use at most {concurrency} threads, one for each connection."
    if isinstance(requests, int) and requests < concurrency:
        errors["requests"] = f"Use at least {concurrency} requests, one for each connection."
    elif isinstance(requests, int) and TOOLS[tool].same_per_connection and requests % concurrency:
        near = requests - requests % concurrency
        errors["requests"] = (
            f"{tool} sends the same number of requests per connection. Enter a multiple of {concurrency}, for example "
            f"{near}."
        )
    errors.update(_protocol_errors(values))
    return errors


def _protocol_errors(values: Arguments) -> dict[str, str]:
    protocol, streams = values.get("protocol", "h1"), values.get("streams", 1)
    if protocol == "h3" and not values["tls"]:
        return {"protocol": "HTTP/3 requires TLS. Turn on TLS."}
    if protocol == "h1" and streams != 1:
        return {"streams": "HTTP/1.1 has no streams. Enter 1, or choose HTTP/2."}
    return {}


def method_and_path(entry: str) -> tuple[str, str]:
    """Split an entry of a list of paths into method and path: `/` means GET, `POST /` names the method."""
    method, blank, path = entry.partition(" ")
    return (method, path) if blank else ("GET", entry)


def clean_paths(tool: str, raw: Any, *, with_methods: bool = False) -> list[str]:
    """Validate and return URL paths, each beginning with one slash.
    `with_methods` allows a supported method and a space before the path. ArgumentError({"paths": ...}) names the first
    invalid path.
    """
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
        raise ArgumentError({"paths": "Enter at least one path, for example /."})
    most = TOOLS[Tool(tool)].max_paths if tool in Tool.values else MAX_PATHS
    if len(raw) > most:
        few = f"{tool} supports only one URL. Keep one path, or choose another tool."
        raise ArgumentError({"paths": few if most == 1 else f"Enter at most {most} paths."})
    for path in raw:
        problem = _entry_problem(tool, path) if with_methods else _path_problem(path)
        if problem:
            raise ArgumentError({"paths": f"{str(path)[:80]!r}: {problem}"})
    return list(raw)


def _entry_problem(tool: str, entry: Any) -> str:
    method, path = method_and_path(entry) if isinstance(entry, str) else ("GET", entry)
    able = TOOLS[Tool(tool)].methods if tool in Tool.values else ("GET",)
    return _path_problem(path) if method in able else f"{tool} supports only {', '.join(able)}."


def _path_problem(path: Any) -> str:
    if not isinstance(path, str) or not path.startswith("/"):
        return "start the path with /, without scheme and host."
    if path.startswith("//"):
        return "two slashes at the start would name another host."
    if len(path) > MAX_PATH_LENGTH:
        return f"use at most {MAX_PATH_LENGTH} characters."
    if not _PATH.fullmatch(path):
        return (
            "percent-encode all characters except A-Z a-z 0-9 . _ ~ - : @ ! * + , = & / ?, for example a space as %20."
        )
    if re.search(r"%(?![0-9A-Fa-f]{2})", path):
        return "a % needs two hexadecimal digits after it; write %25 for a literal %."
    return ""
