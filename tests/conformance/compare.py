"""What two servers answered, compared: status, body, and the headers that a site controls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from panel.rendering.spec import InstallSpec, SiteSpec
from tests.conformance.concerned import met
from tests.conformance.explained import Case, explanation
from tests.conformance.generator import Generated
from tests.conformance.servers import NGINX, Engine, refusal, serving
from tests.conformance.wire import Answer, Broken, Connection, Request

# What a SiteSpec decides of an answer's head. Everything else (Server, Date, ETag...) is the server's own.
CONTROLLED = (
    "location", "cache-control", "www-authenticate", "content-encoding", "x-one", "x-two", "x-app", "content-range",
    "strict-transport-security", "alt-svc", "content-type",
)  # fmt: skip
_OWN_PAGE = re.compile(
    rb"<center>(nginx|gallop)[^<]*</center>|<address>Apache|<!DOCTYPE HTML PUBLIC|<html style=\"height:100%\">"
)


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


def difference(nginx: Answer, other: Answer) -> str:
    """How `other` departs from nginx's answer; empty when it does not."""
    if other.status != nginx.status:
        return f"{other.status} {other.body[:80]!r}, nginx {nginx.status} {nginx.body[:80]!r}"
    if nginx.status == 400:
        return ""  # no request, so no site's headers
    for name in CONTROLLED:
        ours, theirs = _value(name, other), _value(name, nginx)
        if ours != theirs:
            return f"{nginx.status} {name}: {ours!r}, nginx {theirs!r}"
    if ("expires" in nginx.headers) != ("expires" in other.headers):
        return f"{nginx.status} expires: {other.headers.get('expires')!r}, nginx {nginx.headers.get('expires')!r}"
    if nginx.body != other.body and not (_OWN_PAGE.search(nginx.body) and _is_own_page(other)):
        return f"{nginx.status} body {other.body[:120]!r}, nginx {nginx.body[:120]!r}"
    return ""


def _is_own_page(answer: Answer) -> bool:
    return answer.status >= 300 and _OWN_PAGE.search(answer.body) is not None


def _value(name: str, answer: Answer) -> str:
    value = answer.headers.get(name, "")
    if name == "location":
        return re.sub("%[0-9a-f]{2}", lambda found: found[0].upper(), value)  # equal: RFC 3986 section 6.2.2.1
    if name == "content-type":
        if _OWN_PAGE.search(answer.body) or not answer.body:
            return ""  # the server's own page
        return value.partition(";")[0].lower()
    return value


def ask_all(
    engine: Engine, batch: Sequence[Generated], root: Path, port: int
) -> tuple[InstallSpec | None, list[list[Answer]]]:
    """What an engine answers to each site's requests, and the install that it had while it did."""
    if not batch:
        return None, []
    with serving(engine, [item.spec for item in batch], root, port) as install:
        return install, [answers(port, item.requests) for item in batch]


def known_departure(
    engine: Engine, spec: SiteSpec, install: InstallSpec, request: Request, nginx: Answer, other: Answer
) -> str:
    """The name of the documented departure that the answer is, or nothing."""
    meets = met([spec], install, request.host or "", spec.blocks[0].listens[0].port, request.target)
    return explanation(engine.name, Case(request, nginx, other, meets))


def departures(engines: Sequence[Engine], batch: Sequence[Generated], root: Path, port: int) -> Outcome:
    """Every engine's answers beside nginx's."""
    _, expected = ask_all(NGINX, batch, root, port)
    found = Outcome()
    for engine in engines:
        taken = [n for n, item in enumerate(batch) if not refusal(engine, item.spec, root)]
        install, given = ask_all(engine, [batch[n] for n in taken], root, port)
        for number, ours in zip(taken, given, strict=True):
            assert install is not None
            _compare(found, engine, batch[number], install, zip(ours, expected[number], strict=True))
    return found


def _compare(
    found: Outcome, engine: Engine, item: Generated, install: InstallSpec, pairs: Iterable[tuple[Answer, Answer]]
) -> None:
    """`pairs`: the engine's answer and nginx's to each of the site's requests."""
    for request, (answer, nginx) in zip(item.requests, pairs, strict=True):
        found.compared += 1
        if not (what := difference(nginx, answer)):
            continue
        if name := known_departure(engine, item.spec, install, request, nginx, answer):
            found.known[f"{engine.name}: {name}"] += 1
        else:
            found.unexplained.append(Departure(engine.name, item.spec, request, what))
