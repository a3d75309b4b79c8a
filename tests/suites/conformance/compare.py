"""What servers answered to generated requests, beside nginx's answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from panel.rendering.spec import SiteSpec, WebServerSpec
from tests.suites.conformance.explained import Case, explanation
from tests.suites.conformance.explained.equivalent_requests import Twin, twins
from tests.suites.conformance.generator import Generated
from tests.suites.conformance.request_differences import Met, met
from tests.suites.conformance.response_difference import difference
from tests.suites.conformance.servers import NGINX, Engine, refusal, serving
from tests.suites.conformance.wire import Answer, Broken, Connection, Request


@dataclass(frozen=True)
class Departure:
    """One request that an engine answers otherwise than nginx does."""

    engine: str
    spec: SiteSpec
    request: Request
    what: str

    def __str__(self) -> str:
        return f"{self.engine}, site {self.spec.name}: {self.request}: {self.what}"


@dataclass
class Outcome:
    """How many answers were compared with nginx's, how often a documented departure was met, and all others."""

    compared: int = 0
    known: Counter[str] = field(default_factory=Counter)
    unexplained: list[Departure | str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.compared += other.compared
        self.known += other.known
        self.unexplained += other.unexplained


def answers(where: int | Connection, requests: Iterable[Request]) -> list[Answer]:
    """`where`: a port on loopback, or a connection, which is closed afterwards."""
    connection = Connection(where) if isinstance(where, int) else where
    try:
        return [_answer(connection, request) for request in requests]
    finally:
        connection.close()


def _answer(connection: Connection, request: Request) -> Answer:
    try:
        return connection.ask(request)
    except (Broken, TimeoutError) as error:
        connection.close()
        return Answer(-1, {}, f"{type(error).__name__}: {error}".encode())


@dataclass(frozen=True)
class Beside:
    """nginx's answer to one request, and its answers to what OpenLiteSpeed may take that for."""

    nginx: Answer
    twins: tuple[tuple[Twin, Answer, Answer], ...] = ()


def ask_all(
    engine: Engine, batch: Sequence[Generated], root: Path, port: int
) -> tuple[WebServerSpec, list[list[Answer]]]:
    """What an engine answers to each site's requests, and the web server that it had while it did."""
    with serving(engine, [item.spec for item in batch], root, port) as web_server:
        return web_server, [answers(port, item.requests) for item in batch]


def ask_nginx(engines: Sequence[Engine], batch: Sequence[Generated], root: Path, port: int) -> list[list[Beside]]:
    """What the engines' answers are held against."""
    taken = any(engine.engine == "openlitespeed" for engine in engines)
    with serving(NGINX, [item.spec for item in batch], root, port):
        return [_beside(port, item.requests) if taken else _alone(port, item.requests) for item in batch]


def _alone(port: int, requests: Sequence[Request]) -> list[Beside]:
    return [Beside(answer) for answer in answers(port, requests)]


def _beside(port: int, requests: Sequence[Request]) -> list[Beside]:
    found: list[Beside] = []
    for request, nginx in zip(requests, answers(port, requests), strict=True):
        every = twins(request)
        given = answers(port, [asked for twin in every for asked in twin.asked])
        found.append(Beside(nginx, tuple(zip(every, given[::2], given[1::2], strict=True))))
    return found


def groups(engines: Sequence[Engine], batch: Sequence[Generated], root: Path) -> dict[tuple[int, ...], list[Engine]]:
    """The engines by the sites that they can have: another site may be the default where one is left out."""
    found: dict[tuple[int, ...], list[Engine]] = {}
    for engine in engines:
        taken = tuple(n for n, item in enumerate(batch) if not refusal(engine, item.spec, root))
        found.setdefault(taken, []).append(engine)
    return {taken: same for taken, same in found.items() if taken}


def known_departure(
    engine: Engine,
    specs: Sequence[SiteSpec],
    web_server: WebServerSpec,
    request: Request,
    beside: Beside,
    other: Answer,
    before: Request | None = None,
) -> str:
    """The name of the documented departure that the answer is, or nothing. `before`: the connection's request before
    it."""

    def meets(asked: Request) -> Met:
        return met(specs, web_server, asked.host or "", specs[0].blocks[0].listens[0].port, asked.target)

    taken = beside.twins if engine.engine == "openlitespeed" else ()
    given = tuple((twin, answer, get, meets(twin.request)) for twin, answer, get in taken)
    earlier = (before, meets(before)) if before is not None else None
    return explanation(engine.name, Case(request, beside.nginx, other, meets(request), given, before=earlier))


def departures(engines: Sequence[Engine], batch: Sequence[Generated], root: Path, port: int) -> Outcome:
    """Every engine's answers beside those of an nginx with the same sites."""
    found = Outcome()
    for taken, same in groups(engines, batch, root).items():
        some = [batch[number] for number in taken]
        expected = ask_nginx(same, some, root, port)
        for engine in same:
            web_server, given = ask_all(engine, some, root, port)
            for item, ours, theirs in zip(some, given, expected, strict=True):
                specs = [other.spec for other in some]
                _compare(found, engine, specs, item, web_server, zip(ours, theirs, strict=True))
    return found


def _compare(
    found: Outcome,
    engine: Engine,
    specs: Sequence[SiteSpec],
    item: Generated,
    web_server: WebServerSpec,
    pairs: Iterable[tuple[Answer, Beside]],
) -> None:
    """`pairs`: the engine's answer and nginx's to each of the site's requests."""
    before: Request | None = None
    for request, (answer, beside) in zip(item.requests, pairs, strict=True):
        earlier, before = before, request
        found.compared += 1
        if not (what := difference(beside.nginx, answer)):
            continue
        if name := known_departure(engine, specs, web_server, request, beside, answer, earlier):
            found.known[f"{engine.name}: {name}"] += 1
        else:
            found.unexplained.append(Departure(engine.name, item.spec, request, what))
