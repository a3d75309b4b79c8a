"""Hostile values for every field of every form and every schema of the API.

Whatever is sent, the panel answers in time and without a fault of its own, and what it stores renders to a
configuration with as many server blocks as the site has.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.test import Client

from panel.core.errors import ApplicationError
from panel.deployments.revisions.rendered import site_files
from panel.rendering.errors import NotExpressible
from panel.rendering.readers import Read, Unreadable
from panel.rendering.readers.nginx import read
from panel.websites.freeze import site_spec
from panel.websites.models import Site
from tests.suites.attack import bodies, snapshot
from tests.suites.attack.matrix import Door, Figures, api_doors, page_doors, sent

WITHIN_S = 8.0  # of CPU: what one request may cost, on a machine that does other work too
TEXTS = (
    *("a\0b", "a\r\nX-Injected: 1", "a\nserver { }", "\x1b[31mred", "\x7f", "a\u2028b", "a\u202eb", "\ufeff", "\u0000"),
    *("{{ 7*7 }}{% load x %}", "${jndi:x}", "%{file:/etc/passwd}", "$host;}", "`id`", "$(id)", "'; DROP TABLE x; --"),
    *("../../../etc/passwd", "/etc/passwd", "..\\..\\x", "%2e%2e/%00", "file:///etc/passwd", "unix:/run/x.sock"),
    *("<script>alert(1)</script>", "javascript:alert(1)", "\"'><", "\\", '"', "'", "#", ";", "{", "}", "a b"),
    *("", " ", "-", "--help", "0", "-1", "00", "1e999", "NaN", "None", "null", "true", "٣", "ａ", "é" * 300, "ﷺ" * 40),
    *(
        "*",
        ".",
        "..",
        "~^(a+)+$",
        "[::]",
        "169.254.169.254",
        "http://[",
        "a" * 5000,
        "a" * 200_000,
        "\ud800",
        "x\udfff",
    ),
)
OTHERS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**63, 2**64, 10**400, -(2**63) - 1, 1.5, 1e308, [], {}, [None], [[]], [{}]),
    *({"": ""}, {"a": {"b": {}}}, [1, "a", None], {"__class__": "x"}, ["a"] * 2000, [{"name": "\0"}]),
)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def values() -> list[Any]:
    return [*TEXTS, *OTHERS, nested(60)]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place within a body that a value can be put at."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def replaced(body: Any, at: tuple[Any, ...], value: Any) -> Any:
    found = copy.deepcopy(body)
    inner = found
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return found


def full_doors() -> Iterator[Door]:
    """The API's doors with every property of their schemas, also those that need not be there."""
    yield from api_doors()
    for template, method, operation in bodies.operations():
        schema = bodies.body_schema(operation)
        if schema is not None and method in ("PATCH", "POST", "PUT"):
            plain = next(d for d in api_doors() if d.method == method and matches(template, d.path))
            known = {key: value for key, value in schema.get("properties", {}).items() if bodies.wanted(key, value)}
            more = {key: bodies.valid(value, key, 1) for key, value in known.items()}
            yield Door(
                plain.route, plain.path, method, {**more, **plain.body} if isinstance(plain.body, dict) else more
            )


def matches(template: str, path: str) -> bool:
    ours, theirs = template.strip("/").split("/"), path.partition("?")[0].strip("/").split("/")
    return len(ours) == len(theirs) and all(a == b or a.startswith("{") for a, b in zip(ours, theirs, strict=True))


def attempts(client: Client, each: int) -> Iterator[tuple[Door, str]]:
    """Doors with one field made hostile; `each` values per field, in turn. 0: all of them."""
    chosen, turn = values(), 0
    done: set[tuple[str, str, str]] = set()
    for door in [*full_doors(), *page_doors(client)]:
        for at in places(door.body):
            known = (door.method, door.route, ".".join(str(key) for key in at if not isinstance(key, int)))
            if known in done or len(at) > 3 or (door.is_form and len(at) > 1):
                continue
            done.add(known)
            for _ in range(each or len(chosen)):
                value = chosen[turn % len(chosen)]
                turn += 1
                if door.is_form:
                    value = text_of(value)
                yield Door(door.route, door.path, door.method, replaced(door.body, at, value), door.is_form), known[2]


def text_of(value: Any) -> str:
    """What a form can send of it: text, without halves of surrogate pairs."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "ignore").decode()


def run(client: Client, each: int, figures: Figures) -> None:
    for door, where in attempts(client, each):
        figures.doors.add(f"{door} {where}")
        figures.requests += 1
        with transaction.atomic():
            _try(client, door, where, figures)
            transaction.set_rollback(True)


def _try(client: Client, door: Door, where: str, figures: Figures) -> None:
    written, begun = snapshot.writes(), time.thread_time()
    shown = f"{door} {where}={str(door.body)[:80]!r}"
    try:
        answer = sent(client, door)
    except Exception as error:
        figures.findings.append(f"{shown}: {type(error).__name__}: {str(error)[:200]}")
        return
    taken = time.thread_time() - begun
    if answer.status_code >= 500:
        figures.findings.append(f"{shown} -> {answer.status_code}")
    if taken > WITHIN_S:
        figures.findings.append(f"{shown} took {taken:.1f} s of CPU")
    if answer.status_code < 400 and written != snapshot.writes():
        figures.opened.add(str(door))
        figures.findings += [f"{shown} {fault}" for fault in badly_rendered()]


def badly_rendered() -> Iterator[str]:
    """Sites whose configuration cannot be read back or has another number of server blocks than the site."""
    for site in Site.objects.select_related("web_server__host"):
        if site.web_server is None:
            continue
        try:
            files = site_files(site, site.web_server, site_spec(site, site.web_server))
        except (ApplicationError, NotExpressible, ValidationError):
            continue  # a draft may be invalid; its plan names the field
        try:
            trees = [read(file.text) for file in files if file.path.endswith(".conf") and file.text]
        except Unreadable as error:
            yield f"renders what nginx cannot read: {error}"
            continue
        if sum(map(_servers, trees)) > 2 * site.blocks.count():  # one more where HTTP leads to HTTPS
            yield "renders more server blocks than the site has"


def _servers(tree: tuple[Read, ...]) -> int:
    return sum(item.name == "server" and item.body is not None for item in tree)
