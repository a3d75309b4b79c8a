"""The fixed cases of all kinds, each on a port of its own in one server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from panel.rendering.spec import SiteSpec, WebServerSpec
from tests.suites.conformance import (
    caching_cases,
    feature_cases,
    found_access_cases,
    found_cases,
    found_name_cases,
    found_refusal_cases,
    found_script_cases,
    nginx_guide_cases,
    refused_cases,
    rewrite_cases,
    sites,
)
from tests.suites.conformance.compare import answers
from tests.suites.conformance.expected_responses import Expected
from tests.suites.conformance.explained import Case as Departing
from tests.suites.conformance.explained import explanation, fixed
from tests.suites.conformance.request_differences import met
from tests.suites.conformance.servers import Engine, refusal, serving
from tests.suites.conformance.wire import Answer, Connection, Request
from tests.suites.conformance.world import World
from tests.support.ports import free_port

Case = Callable[[World], tuple[SiteSpec, list[Expected]]]

_KINDS = (
    sites,
    nginx_guide_cases,
    feature_cases,
    caching_cases,
    rewrite_cases,
    found_access_cases,
    found_cases,
    found_name_cases,
    found_refusal_cases,
    found_script_cases,
    refused_cases,
)
CASES: tuple[Case, ...] = tuple(case for kind in _KINDS for case in kind.SITES)
FILES: dict[str, str] = {name: text for kind in _KINDS for name, text in kind.FILES.items()}


def run(engine: Engine, root: Path, world: World) -> tuple[int, list[str]]:
    """How many requests were asked, and what was answered otherwise than expected."""
    asked: list[tuple[str, int, SiteSpec, list[Expected]]] = []
    for case in CASES:
        port = free_port()
        spec, requests = case(replace(world, port=port))
        if not refusal(engine, spec, root):
            asked.append((case.__name__, port, spec, requests))
    wrong: list[str] = []
    with serving(engine, [spec for _, _, spec, _ in asked], root, asked[0][1]) as web_server:
        for name, port, spec, requests in asked:
            for expected, answer in _asked(port, requests):
                what = _wrong(expected, answer, engine.engine)
                if what and not _is_shown(engine, spec, web_server, port, expected, answer):
                    wrong.append(f"{engine.name}, {name}: {_request(expected)}: {what}")
    return sum(len(requests) for *_, requests in asked), wrong


def _is_shown(
    engine: Engine, spec: SiteSpec, web_server: WebServerSpec, port: int, expected: Expected, answer: Answer
) -> bool:
    """Whether OpenLiteSpeed's own rows say that the answering location departs, or that the request is one."""
    if engine.engine != "openlitespeed":
        return False
    where, host = expected.port or port, expected.host or ""
    meets = met([spec], web_server, host, where, expected.path, tls=expected.tls)
    body = answer.body if expected.body is None else expected.body.encode()
    wanted = Answer(expected.status, {**answer.headers, **expected.headers}, body)
    departs = Departing(_request(expected), wanted, answer, meets)
    return bool(explanation(engine.name, departs)) or fixed.explained(spec.name, departs.request, answer, meets.shown)


def _asked(port: int, requests: list[Expected]) -> Iterator[tuple[Expected, Answer]]:
    """Each with its answer; requests that go the same way share a connection."""
    for (address, own, name), group in groupby(requests, _way):
        some = list(group)
        where = Connection(own or port, address=address, tls_name=name)
        yield from zip(some, answers(where, [_request(item) for item in some]), strict=True)


def _way(item: Expected) -> tuple[str, int, str]:
    return item.address, item.port, (item.host or "localhost") if item.tls else ""


def _request(item: Expected) -> Request:
    return Request(item.path, item.method, item.host, item.version, tuple(item.sent.items()), item.sent_body)


def _wrong(expected: Expected, answer: Answer, engine: str) -> str:
    text = answer.body.decode(errors="replace")
    status = expected.otherwise.get(engine, expected.status)
    if answer.status != status:
        return f"{answer.status}, not {status}: {text[:200]}"
    if expected.body is not None and text != expected.body:
        return f"{text[:200]!r}, not {expected.body!r}"
    got = {name: answer.headers.get(name, "") for name in expected.headers}
    return f"{got}, not {expected.headers}" if got != expected.headers else ""
