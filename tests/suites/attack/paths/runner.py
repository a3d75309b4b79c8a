"""The whole run: definitions through the panel's own checks, then requests to each real server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from panel.rendering.spec import SiteSpec
from tests.suites.attack.paths import accepted_definitions
from tests.suites.attack.paths.backend import backend
from tests.suites.attack.paths.definitions import Drawing, Hostile
from tests.suites.attack.paths.folders import Folders, laid_out
from tests.suites.attack.paths.site_server import Serving
from tests.suites.attack.paths.visitor_requests import requests
from tests.suites.conformance.servers import Engine, engines
from tests.suites.conformance.wire import Answer, Broken, Connection, Request
from tests.support.ports import free_port

BATCH = 100  # sites in one server at a time
CONNECTIONS = 8  # sites that are asked at the same time: a slow answer does not hold up the others
TIMEOUT_S = 3.0


@dataclass
class Result:
    """Of one engine. `refused`: definitions that the panel did not take, or that this engine cannot have. `read`: the
    canaries, with the definition and the request that showed each."""

    engine: str
    sites: int = 0
    requests: int = 0
    refused: int = 0
    answered: int = 0  # with status 200
    silent: int = 0  # no answer before the timeout, or the connection was closed
    read: list[str] = field(default_factory=list)
    workers: set[int] = field(default_factory=set)

    def add(self, other: Result) -> None:
        """The requests to one site."""
        self.requests += other.requests
        self.answered += other.answered
        self.silent += other.silent
        self.read += other.read

    def line(self) -> str:
        return (
            f"{self.engine}: {self.sites} sites, {self.requests} requests "
            f"({self.answered} responses with 200, {self.silent} without a response), "
            f"{len(self.read)} canaries read, {self.refused} definitions refused"
        )


def run(
    sites: int,
    requests: int,
    seed: int,
    *,
    only: Sequence[str] = (),
    makes_database: bool = False,
    told: Callable[[Result], object] = lambda _: None,
) -> list[Result]:
    """`requests`: to each site. `only`: names of engines. `makes_database`: outside pytest. `told` is called with each
    engine's result as soon as there is one."""
    home = Path(tempfile.mkdtemp(prefix="pa-"))
    home.chmod(0o755)
    try:
        with backend() as address, accepted_definitions.database() if makes_database else nullcontext():
            folders, port, chance = laid_out(home / "host"), free_port(), Random(seed)
            drawn = [Drawing(chance, folders, address).site(f"s{number}", port) for number in range(sites)]
            specs = accepted_definitions.frozen(drawn, accepted_definitions.people(folders))
            chosen = [engine for engine in engines() if not only or engine.name in only]
            results = []
            for engine in chosen:
                results.append(_attacked(engine, drawn, specs, home, folders, port, requests, seed))
                told(results[-1])
            return results
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _attacked(
    engine: Engine, drawn: list[Hostile], specs: dict[str, SiteSpec], home: Path, folders: Folders, port: int,
    count: int, seed: int,
) -> Result:  # fmt: skip
    result, serving, chance = Result(engine.name), Serving(engine, home, folders, port), Random(seed)
    known = {site.name: site for site in drawn}
    usable = serving.expressible(list(specs.values()))
    for first in range(0, len(usable), BATCH):
        batch = serving.taken(usable[first : first + BATCH])
        if not batch:
            continue
        result.sites += len(batch)
        asked = [(known[spec.name], requests(known[spec.name], chance, count)) for spec in batch]
        with serving.running(batch), ThreadPoolExecutor(CONNECTIONS) as pool:
            for found in pool.map(lambda one: _ask(*one, port, folders, engine.name), asked):
                result.add(found)
            result.workers |= set(serving.workers())
    result.refused = len(drawn) - result.sites
    return result


def _ask(site: Hostile, asked: list[Request], port: int, folders: Folders, engine: str) -> Result:
    """The requests to one site, one after the other on one connection."""
    connection, result = Connection(port, timeout_s=TIMEOUT_S), Result(engine)
    for request in asked:
        answer = _answer(connection, request)
        result.requests += 1
        result.answered += answer.status == 200
        result.silent += answer.status == 0
        if folders.canary(answer.body + str(answer.headers).encode()):
            result.read.append(f"{engine}: {request} of {site.data}: {answer.body[:300]!r}")
    connection.close()
    return result


def _answer(connection: Connection, request: Request) -> Answer:
    try:
        return connection.ask(request)
    except (Broken, OSError, ValueError):
        connection.close()
        return Answer(0)
