"""One answer that differs from nginx's, and what a documented departure says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from panel.rendering.normalise import BadPath, normalise, split_target
from tests.suites.conformance.explained.equivalent_requests import Twin
from tests.suites.conformance.request_differences import Met
from tests.suites.conformance.wire import Answer, Request


@dataclass(frozen=True)
class Case:
    """`twins`: what nginx answers to each request that OpenLiteSpeed may take this for, to the same with GET, and
    what it meets. `get`: the second, where `nginx` is the first. `before`: the request before it on the connection,
    and what that met."""

    request: Request
    nginx: Answer
    other: Answer
    met: Met = field(default_factory=Met)
    twins: tuple[tuple[Twin, Answer, Answer, Met], ...] = ()
    get: Answer | None = None
    before: tuple[Request, Met] | None = None

    @property
    def statuses(self) -> tuple[int, int]:
        """nginx's, then the other's."""
        return self.nginx.status, self.other.status

    @property
    def path(self) -> str:
        """As locations see it; empty where nginx refuses the request."""
        target = self.request.target.removeprefix("http://")
        target = target if target == self.request.target else "/" + target.partition("/")[2]
        try:
            return normalised(target)
        except BadPath:
            return ""

    def asks(self, header: str) -> bool:
        return any(name == header for name, _ in self.request.headers)


def normalised(target: str) -> str:
    return normalise(split_target(target)[0].encode("latin-1").decode("utf-8", "surrogateescape"))


@dataclass(frozen=True)
class Explained:
    name: str
    engines: tuple[str, ...]
    text: str
    applies: Callable[[Case], bool]
    shown: str = ""
