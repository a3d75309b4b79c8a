"""Check raw directives: parse them by the server's own grammar, and compare them with the engine's allow-list.

The allow-list is in the engine's `policy.py`: allowed directives with their argument kinds, and refused directives with
the reason. A directive that is neither allowed nor refused there is refused too. Paths must be constant and below the
host's site folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from panel.rendering.apache import policy as apache_policy
from panel.rendering.errors import NotExpressible
from panel.rendering.nginx import policy as nginx_policy
from panel.rendering.openlitespeed import policy as openlitespeed_policy
from panel.rendering.policy import Named, Policy, Where
from panel.rendering.readers import Read, Unreadable
from panel.rendering.spec import WebServerSpec

POLICIES: dict[str, Policy] = {
    "nginx": nginx_policy.POLICY,
    "native": nginx_policy.POLICY,
    "apache": apache_policy.POLICY,
    "openlitespeed": openlitespeed_policy.POLICY,
}


@dataclass(frozen=True)
class Problem:
    """Error in a snippet of raw directives. `line` counts from 1 within the snippet; `directive` is empty for an error
    in a line before its directives are parsed.
    """

    line: int
    directive: str
    message: str

    def __str__(self) -> str:
        name = f", {self.directive}" if self.directive else ""
        return f"line {self.line}{name}: {self.message}"


def check(text: str, web_server: WebServerSpec, place: str = "") -> list[Problem]:
    """Return all errors in a snippet of raw directives for the given web server; an empty list if sites may contain it.

    `place`: "server" or "location", the intended context; "" for either.
    """
    policy = POLICIES[web_server.engine]
    text = text.rstrip("\n")  # as rendered: a backslash before the last newline would join the next line
    for number, line in enumerate(text.split("\n"), 1):
        for character in line:
            if (ord(character) < 32 and character != "\t") or ord(character) == 127:
                return [
                    Problem(number, "", f"the line contains the control character U+{ord(character):04X}; remove it")
                ]
    try:
        found = policy.read(text)
    except Unreadable as error:
        return [Problem(error.line, "", error.message)]
    where = Where(web_server, place=place, names=policy.names(found))
    return list(_problems(found, policy, where))


@lru_cache(maxsize=4096)
def named(text: str, engine: str) -> tuple[Named, ...]:
    """Return the paths on the host and the other servers that a snippet of raw directives names, in order, each once.

    The result is empty if the snippet cannot be parsed; `check` reports the error.
    """
    policy, found = POLICIES[engine], list[Named]()
    everywhere = WebServerSpec(cast(Any, engine), "conf_d", "/", "")
    try:
        items = policy.read(text.rstrip("\n")) if text else ()
    except Unreadable:
        return ()
    for _problem in _problems(items, policy, Where(everywhere, noted=found, names=policy.names(items))):
        pass  # the kinds record what they find
    return tuple(dict.fromkeys(found))


def _problems(items: Iterable[Read], policy: Policy, where: Where) -> Iterator[Problem]:
    for item in items:
        here = replace(where, directive=item.name)
        if kind := policy.own.get(where.parents[-1]) if where.parents else None:
            message = policy.kinds[kind](item.name, here) or (
                "this directive takes no block" if item.body is not None else ""
            )
        else:
            message = policy.problem(item, here)
        if message:
            yield Problem(item.line, item.name, message)
        if item.body:
            yield from _problems(item.body, policy, replace(where, parents=(*where.parents, item.name.lower())))


def require(text: str, web_server: WebServerSpec, at: str, place: str) -> str:
    """Return the snippet of raw directives; raise NotExpressible, with the JSON pointer `at`, if `check` finds an
    error.
    """
    if problems := check(text, web_server, place):
        raise NotExpressible(at, "; ".join(str(problem) for problem in problems))
    return text.strip("\n")
