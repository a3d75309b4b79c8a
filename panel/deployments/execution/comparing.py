"""Compare responses of an adopted site before and after its first deployment, with requests derived from its locations.
Pure functions. Format of a comparison:

{"requests": [{"url", "before": Answer, "after": Answer | null, "differences": ["status", "body", "header X"]}],
     "same": n, "different": n, "complete": bool}

agents/host/answers.py defines an Answer. A body that already differs between two requests before the change (a clock, a
token) is not compared and not listed in `differences`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agents.protocol import Probe
from panel.deployments.execution.probes import connect_to, host_for
from panel.remote.client import Message
from panel.rendering.spec import Location, ServerBlock, SiteSpec

MAX_PATHS = 40  # per server block
MAX_REQUESTS = 400  # per deployment
_UNTESTED = "/paddock-compares-what-is-not-there"
# Expires depends on the current time; Cache-Control has the same information without a clock.
_IGNORED = ("expires",)


def paths_of(block: ServerBlock) -> list[str]:
    """Return sample paths for a server block, at most MAX_PATHS: /, a path for which no file exists, and paths of its
    locations and error pages.
    """
    found = ["/", _UNTESTED]
    for location in block.locations:
        found += _samples(location)
    found += [page.uri for page in block.error_pages if page.uri.startswith("/")]
    return list(dict.fromkeys(path for path in found if _is_plain(path)))[:MAX_PATHS]


def _is_plain(path: str) -> bool:
    return path.startswith("/") and not re.search(r"[\s\x00-\x1f\x7f]", path) and path.isascii()


def _samples(location: Location) -> list[str]:
    pattern = location.pattern
    if location.match not in ("~", "~*"):
        below = f"{pattern.rstrip('/')}/{_UNTESTED[1:]}"
        return [pattern] if location.match == "=" else [pattern, below]
    endings = re.findall(r"\\\.\(?(?:\?:)?([a-z0-9|]+)\)?\$", pattern)
    if endings:
        return [f"/paddock.{ending}" for ending in endings[0].split("|")[:4]] + [f"/index.{endings[0].split('|')[0]}"]
    literal = re.match(r"\^(/[A-Za-z0-9_/-]*)", pattern)
    return [literal[1], literal[1].rstrip("/") + "/x"] if literal else []


def requests_of(specs: Iterable[SiteSpec]) -> list[Probe]:
    """Return the requests whose responses before and after a deployment are compared. They are taken from the server
    blocks in turn; at most MAX_REQUESTS.
    """
    rows = [_of_block(block) for spec in specs for block in spec.blocks]
    found: list[Probe] = []
    for number in range(max((len(row) for row in rows), default=0)):
        found += [row[number] for row in rows if number < len(row)]
    return list(dict.fromkeys(found))[:MAX_REQUESTS]


def _of_block(block: ServerBlock) -> list[Probe]:
    found: list[Probe] = []
    host = host_for(block)
    for path in paths_of(block):
        for listen in block.listens:
            names = [host] if host else []
            names += ["unknown.invalid"] if listen.default_server else []
            for name in names:
                found.append(Probe(connect_to(listen), listen.port, name, path=path, tls=listen.tls))
    return found


def question(probe: Probe) -> dict[str, object]:
    """Convert a probe (a test request to a site) to the format of the agent's operation `answers`."""
    usual = 443 if probe.tls else 80
    port = "" if probe.port == usual else f":{probe.port}"
    return {
        "address": probe.address,
        "port": probe.port,
        "host": probe.host,
        "host_header": f"{probe.host}{port}",
        "path": probe.path,
        "tls": probe.tls,
        "gzip": False,
    }


def url_of(probe: Probe) -> str:
    scheme, usual = ("https", 443) if probe.tls else ("http", 80)
    return f"{scheme}://{probe.host}{'' if probe.port == usual else f':{probe.port}'}{probe.path}"


def begun(probes: Sequence[Probe], first: Sequence[Message], again: Sequence[Message]) -> list[Message]:
    """Return the rows of a new comparison, one per request.

    `first` and `again` are the responses to the same requests, sent twice before the change.
    """
    rows = []
    for probe, answer, second in zip(probes, first, again, strict=True):
        changing = sorted(_differences(answer, second))
        row = {"url": url_of(probe), "question": question(probe), "before": answer, "changing": changing}
        rows.append({**row, "after": None, "differences": []})
    return rows


def finished(rows: Sequence[Message], after: Sequence[Message]) -> Message:
    """Return the complete comparison; `after` are the responses after the change, one for each of the comparison's
    `rows`. Requests that failed before the change are left out.
    """
    done = []
    for row, answer in zip(rows, after, strict=True):
        if "error" in row["before"]:
            continue
        differences = [name for name in _differences(row["before"], answer) if name not in row["changing"]]
        done.append({**row, "after": answer, "differences": differences})
    different = sum(bool(row["differences"]) for row in done)
    return {"requests": done, "same": len(done) - different, "different": different, "complete": True}


def _differences(before: Message, after: Message) -> list[str]:
    if "error" in before or "error" in after:
        return [] if before == after else ["answer"]
    found = ["status"] if before["status"] != after["status"] else []
    found += ["body"] if before["sha256"] != after["sha256"] else []
    mine, other = before.get("headers", {}), after.get("headers", {})
    for name in sorted({*mine, *other}):
        if name not in _IGNORED and mine.get(name) != other.get(name):
            found.append(f"header {name}")
    return found
