"""“Which location?” held against running servers: every location marks its answers with its own number.

The explanation must name the location that a server's mark names, or one that it says the request may be handed on to
(an index file's, a fallback's, an error page's), and with it the file, the answer or the upstream's path that results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from panel.rendering.explain import Explanation, explain
from panel.rendering.explain import Request as Question
from panel.rendering.normalise import normalise, split_target
from panel.rendering.outcome import Outcome
from panel.rendering.spec import Header, ServerBlock, SiteSpec
from tests.suites.conformance.compare import Departure, ask_all, ask_nginx, groups, known_departure
from tests.suites.conformance.compare import Outcome as Compared
from tests.suites.conformance.generator import FILES, Generated
from tests.suites.conformance.servers import NGINX, Engine
from tests.suites.conformance.wire import Answer, Request

MARK = "X-Place"
BLOCK = "block"


def marked(spec: SiteSpec) -> SiteSpec:
    """The same site, with a header on every answer that says whose it is. A location that refuses says nothing of its
    own, so its answers have the server block's mark."""
    return replace(spec, blocks=tuple(_marked(block, spec.name) for block in spec.blocks))


def _marked(block: ServerBlock, site: str) -> ServerBlock:
    places = tuple(
        place if place.handler == "deny" else replace(place, headers=(*place.headers, Header(MARK, f"{site} {number}")))
        for number, place in enumerate(block.locations)
    )
    return replace(block, headers=(*block.headers, Header(MARK, f"{site} {BLOCK}")), locations=places)


@dataclass(frozen=True)
class Told:
    """What an explanation promises of one request to a marked site."""

    explanation: Explanation
    marks: tuple[str, ...]  # the location's own, then those it may hand on to
    handed_on: tuple[str, ...] = ()  # files that it may answer with after that, where it is its own next location

    @property
    def outcome(self) -> Outcome:
        return self.explanation.outcome


def told(specs: Sequence[SiteSpec], request: Request, port: int) -> Told:
    target, host = request.target, request.host or ""
    if target.startswith("http://"):  # what a forward proxy is asked; its host counts
        host, _, path = target.removeprefix("http://").partition("/")
        target = f"/{path}"
    text = target.encode("latin-1").decode("utf-8", "surrogateescape")
    explanation = explain(specs, Question("http", host, port, text))
    pointers = (explanation.location, *(lead.location for lead in explanation.outcome.leads))
    spec = next(spec for spec in specs if spec.name == explanation.site)
    own = [lead.path for lead in explanation.outcome.leads if lead.location == explanation.location]
    again = [explain(specs, Question("http", host, port, path)).outcome for path in own]
    files = tuple(file for outcome in again for file in outcome.files)
    return Told(explanation, tuple(_mark(spec, pointer) for pointer in pointers), files)


def _mark(spec: SiteSpec, pointer: str) -> str:
    """The block's own try_files are a location that only the block has; one that refuses has no mark of its own."""
    number = pointer.rpartition("/locations/")[2] if "/locations/" in pointer else ""
    refuses = bool(number) and spec.blocks[0].locations[int(number)].handler == "deny"
    return f"{spec.name} {BLOCK if refuses or not number else number}"


def fault(promise: Told, request: Request, answer: Answer, www: str) -> str:
    """How the answer contradicts the explanation; empty when it does not."""
    outcome = promise.outcome
    if outcome.status == 400 or answer.status == 400:
        return "" if outcome.status == answer.status else f"{answer.status}, explained as {outcome.sentence()}"
    mark = answer.headers.get(MARK.lower(), "").partition(", ")[0]  # nginx before 1.23 sends all twice with a 416
    if request.method == "TRACE":
        return ""  # refused before anything is chosen; an explanation has no methods
    if mark not in promise.marks:
        return f"answered by {mark or 'nobody'}, explained as {promise.marks}: {promise.explanation.steps[-2].text}"
    own = mark == promise.marks[0]
    if own and outcome.kind == "return" and not outcome.leads and answer.status != outcome.status:
        return f"{answer.status}, explained as {outcome.sentence()}"
    if own and answer.status == 200 and request.method == "GET" and not request.headers:
        return _fault_of_content(promise, answer, www)
    return ""


def _fault_of_content(promise: Told, answer: Answer, www: str) -> str:
    outcome, text = promise.outcome, answer.body.decode("utf-8", "surrogateescape")
    files = [*outcome.files, *promise.handed_on]
    if outcome.kind == "files" and answer.body not in [_content(file, www) for file in files]:
        return f"{text[:80]!r} is none of {files}"
    if outcome.kind == "php" and f"file={Path(outcome.files[0]).name} " not in text:
        return f"{text[:80]!r}, explained as {outcome.sentence()}"
    if outcome.kind == "proxy":
        # OpenLiteSpeed passes an absolute form on as it came.
        target = re.sub("^http://[^/?#]*", "", text.split(" ")[1]) or "/"
        asked = normalise(split_target(target)[0])
        wanted = outcome.text.rpartition(" at ")[0]
        return "" if normalise_text(wanted) == asked else f"asked for {asked!r}, explained as {outcome.sentence()}"
    return ""


def normalise_text(path: str) -> str:
    """A path that is decoded already, as a server's normal form has it."""
    return normalise(path.replace("%", "%25").replace("?", "%3F").replace("#", "%23"))


def _content(file: str, www: str) -> bytes | None:
    name = file.removeprefix(f"{www}/")
    return FILES[name].encode() if name in FILES else None


def departures(engines: Sequence[Engine], batch: Sequence[Generated], root: Path, port: int, www: str) -> Compared:
    """Every engine's marks beside the explanations. One that cannot have all sites is beside an nginx with those that
    it can have, since another site may be the default then."""
    sites = [Generated(marked(item.spec), item.requests) for item in batch]
    found = Compared()
    for taken, same in groups(engines, sites, root).items():
        _compare(found, same, [sites[n] for n in taken], root, port, www)
    return found


def _compare(
    found: Compared, engines: Sequence[Engine], sites: Sequence[Generated], root: Path, port: int, www: str
) -> None:
    """nginx and the engines beside it in turn."""
    specs = [item.spec for item in sites]
    promises = [[told(specs, request, port) for request in item.requests] for item in sites]
    expected = ask_nginx(engines, sites, root, port)
    for engine in (NGINX, *engines):
        web_server, given = ask_all(engine, sites, root, port)
        for item, told_, ours, theirs in zip(sites, promises, given, expected, strict=True):
            before: Request | None = None
            for request, promise, answer, beside in zip(item.requests, told_, ours, theirs, strict=True):
                earlier, before = before, request
                found.compared += 1
                if not (what := fault(promise, request, answer, www)):
                    continue
                if name := known_departure(engine, specs, web_server, request, beside, answer, earlier):
                    found.known[f"{engine.name}: {name}"] += 1
                else:
                    found.unexplained.append(Departure(f"explained, {engine.name}", item.spec, request, what))
