"""Calls from the deployments app to the agents on hosts: transactions, drift, probes, logs, and DNS lookups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agents import protocol
from panel.core.errors import ApplicationError
from panel.hosts.authorities import authorities_once
from panel.hosts.models import Host, HostStatus, WebServer
from panel.hosts.targets import engine_control, target_for
from panel.remote import pool
from panel.remote.client import Asked, Heard, Message

# A transaction on hundreds of sites tests and reloads once; after this time the result is requested again.
APPLY_TIMEOUT_S = 180.0
ASK_TIMEOUT_S = 20.0
ANSWERS_TIMEOUT_S = 120.0
# Seconds that a page waits for a host's current files before it shows the plan without them.
LOOK_TIMEOUT_S = 8.0
NAMES_AT_ONCE = 1000  # as many as the agent resolves in one call
LOGS_AT_ONCE = 50  # access logs in one request to a host
BUSIEST = 10  # addresses of one log
CONNECTED_SOON = 64  # hosts; each has a thread until it is reached

OnEvent = Callable[[Message], None]


@dataclass(frozen=True)
class Found:
    """Unexpected state of a path on a host.

    `sha256` is "" if nothing exists there, "link:TARGET" for a link; `content` is "" for secrets and for binary data.
    """

    path: str
    sha256: str
    content: str


@dataclass(frozen=True)
class Missing:
    """A folder, file, socket, service or port that a site needs, and that is missing or unusable on the host. Kinds and
    states are those of agents/host/prerequisites.py.
    """

    kind: str
    name: str
    state: str
    detail: str


@dataclass(frozen=True)
class Preflight:
    """Facts of a host for a plan: the most requested paths of each access log, and unmet needs of sites."""

    busiest: list[list[str]]
    missing: list[Missing]


def _call(host: Host, operation: str, args: Message, timeout_s: float, on_event: OnEvent | None = None) -> Any:
    with pool.session(target_for(host)) as session:
        return session.call(operation, args, on_event=on_event, timeout=timeout_s)


def is_ready(host: Host) -> bool:
    """Return whether a connection to the host is open and usable now. Raises Conflict if the host key of the host
    changed (see `target_for`).
    """
    return pool.is_ready(target_for(host))


def connect_soon(hosts: Iterable[Host]) -> None:
    """Connect in the background to the first CONNECTED_SOON ready hosts, while the caller prepares its requests."""
    with authorities_once():
        ready = dict.fromkeys(target_for(host) for host in hosts if host.status == HostStatus.READY)
    pool.prepare(islice(ready, CONNECTED_SOON))


def apply(host: Host, request: protocol.ApplyRequest, on_event: OnEvent) -> protocol.ApplyResult:
    """Send one transaction, wait for its end, and return the result. A repeated transaction id returns the first
    result. Raises RemoteError.
    """
    return result_of(_call(host, "apply", protocol.plain(request), APPLY_TIMEOUT_S, on_event))


def apply_ask(host: Host, request: protocol.ApplyRequest, heard: Heard) -> Asked:
    """Send one transaction without waiting; the agent's events and result are passed to `heard` in another thread."""
    with pool.session(target_for(host)) as session:
        return session.ask("apply", protocol.plain(request), heard)


def outcome(host: Host, transaction: str) -> protocol.ApplyResult | None:
    """Return the result of a transaction whose response was lost; None if the host never started it.

    The agent first finishes or rolls back a half-done transaction. Raises RemoteError.
    """
    _call(host, "recover", {}, ASK_TIMEOUT_S)
    data = _call(host, "status", {"transaction": transaction}, ASK_TIMEOUT_S)
    return result_of(data) if data.get("outcome") not in (None, "", "unknown") else None


def abandoned(host: Host, transaction: str) -> protocol.ApplyResult:
    """Return the result of a transaction. If it has not started, forbid its start; the outcome is then "abandoned".
    Raises RemoteError.
    """
    return result_of(_call(host, "status", {"transaction": transaction, "abandon": True}, ASK_TIMEOUT_S))


def result_of(data: Mapping[str, Any]) -> protocol.ApplyResult:
    steps = [protocol.StepEvent(**step) for step in data.get("steps", [])]
    checks = list(data.get("checks", ()))
    return protocol.ApplyResult(outcome=data["outcome"], error=data.get("error", ""), steps=steps, checks=checks)


def differing(
    host: Host,
    expected: Mapping[str, str],
    *,
    secrets: Collection[str] = (),
    roots: Collection[str],
    timeout_s: float = LOOK_TIMEOUT_S,
) -> dict[str, Found]:
    """Return {path: file} for files whose state on the host differs from `expected` ({path: value of
    FileChange.expect}). The content of the paths in `secrets` stays on the host. Raises ApplicationError if the host
    does not respond.
    """
    return differing_ask(host, expected, secrets=secrets, roots=roots, timeout_s=timeout_s)()


def differing_ask(
    host: Host,
    expected: Mapping[str, str],
    *,
    secrets: Collection[str] = (),
    roots: Collection[str],
    timeout_s: float = LOOK_TIMEOUT_S,
) -> Callable[[], dict[str, Found]]:
    """Send the request of `differing` now; return a function that waits for the response and returns the files.
    Both can raise ApplicationError.
    """
    files = [{"path": path, "sha256": mark, "secret": path in secrets} for path, mark in sorted(expected.items())]
    with pool.session(target_for(host)) as session:
        asked = session.ask("drift", {"files": files, "roots": sorted(roots)})

    def answer() -> dict[str, Found]:
        data = asked.result(timeout=timeout_s)
        return {item["path"]: Found(item["path"], item["sha256"], item["content"]) for item in data["files"]}

    return answer


def refused_ask(host: Host, names: Collection[str]) -> Callable[[float], dict[str, str]]:
    """Ask the host which of the names resolve to addresses that sites must not use.

    Return a function that takes the seconds to wait for the response, and returns {name: reason}.
    """
    with pool.session(target_for(host)) as session:
        asked = session.ask("resolve", {"names": sorted(names)})

    def answer(timeout_s: float) -> dict[str, str]:
        found: dict[str, str] = asked.result(timeout=timeout_s)["refused"]
        return found

    return answer


def answers(host: Host, questions: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return the responses of the host's web servers, one for each request in `questions` (see `comparing.question`),
    in the same order.
    """
    found: list[dict[str, object]] = _call(host, "answers", {"requests": list(questions)}, ANSWERS_TIMEOUT_S)["answers"]
    return found


def preflight_ask(
    host: Host, logs: Sequence[str], *, roots: Collection[str], needs: Message | None
) -> Callable[[], Preflight]:
    """Ask the host for the most requested paths in the given access logs, and for unmet `needs` of sites
    (agents/host/prerequisites.py). Return a function that waits for the response.
    """
    rows = [{"path": path, "roots": sorted(roots), "most": BUSIEST} for path in logs[:LOGS_AT_ONCE]]
    with pool.session(target_for(host)) as session:
        asked = session.ask("preflight", {"logs": rows, "needs": needs})

    def answer() -> Preflight:
        found = asked.result(timeout=LOOK_TIMEOUT_S)
        return Preflight(found["busiest"], [Missing(**row) for row in found["missing"]])

    return answer


def preflight(host: Host, logs: Sequence[str], *, roots: Collection[str]) -> Preflight:
    """Return the most requested paths in each of the given access logs of a host (`Preflight.busiest`)."""
    return preflight_ask(host, logs, roots=roots, needs=None)()


def observed(host: Host, probes: Sequence[protocol.Probe]) -> list[Message]:
    """Let the host's agent send probes now. Return the responses in the order of the probes; fewer if time runs out."""
    args = {"probes": protocol.plain(list(probes))}
    found: list[Message] = _call(host, "observe", args, ANSWERS_TIMEOUT_S)["rows"]
    return found


def resolved(host: Host, names: Sequence[str]) -> dict[str, list[str]]:
    """Return {name: IP addresses} as the host resolves the names; [] for a name without known addresses. Raises
    ApplicationError if the host is not ready or does not respond.
    """
    if host.status != HostStatus.READY:
        raise ApplicationError(host.status_detail or f"{host} is {host.get_status_display().lower()}.")
    found: dict[str, list[str]] = {}
    for start in range(0, len(names), NAMES_AT_ONCE):
        part = list(names[start : start + NAMES_AT_ONCE])
        found |= _call(host, "resolve", {"names": part}, ASK_TIMEOUT_S)["addresses"]
    return found


@dataclass(frozen=True)
class Responses:
    """Counts of responses in a part of an access log: all, errors, and the 99th percentile of response times in
    milliseconds, None if the log has no times.
    """

    requests: int
    errors: int
    p99_ms: float | None


def log_counts(
    host: Host, logs: Sequence[str], *, roots: Collection[str], ago_s: float
) -> list[tuple[Responses, Responses]]:
    """Return, for each of the given access logs, the counts of responses before and after a moment. Raises RemoteError.

    The moment is given as `ago_s`, seconds before now, because the clocks of the host and the panel may differ.
    """
    rows = [{"path": path, "roots": sorted(roots)} for path in logs[:LOGS_AT_ONCE]]
    counts = _call(host, "log_counts", {"logs": rows, "ago_s": ago_s}, ASK_TIMEOUT_S)["counts"]
    return [(Responses(**row["before"]), Responses(**row["after"])) for row in counts]


def emptied(host: Host, folders: Sequence[str], *, roots: Collection[str]) -> Message:
    """Delete the files below `folders`; return {"files": number of files, "bytes": their size}. Raises RemoteError."""
    args = {"folders": list(folders), "roots": sorted(roots)}
    found: Message = _call(host, "empty", args, ANSWERS_TIMEOUT_S)
    return found


def controls(web_servers: Iterable[WebServer]) -> list[protocol.EngineControl]:
    return [engine_control(web_server) for web_server in web_servers]
