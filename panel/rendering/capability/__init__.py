"""Table of the engines' capabilities: the behavior of each engine for each field of a SiteSpec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from panel.rendering import streams
from panel.rendering.spec import ServerBlock, SiteSpec, WebServerSpec

Severity = Literal["not_offered", "different"]


@dataclass(frozen=True)
class Context:
    """Surroundings of a value in a SiteSpec: the object that has the value as a field (`owner`), its server block (if
    any), the site, and the web server.
    """

    owner: Any
    block: ServerBlock | None
    spec: SiteSpec
    web_server: WebServerSpec


@dataclass(frozen=True)
class Verdict:
    """One difference from nginx's meaning of a field, and the condition under which it applies."""

    severity: Severity
    what: str
    nearest: str
    when: Callable[[Context], bool] = lambda context: True


def missing(what: str, nearest: str, when: Callable[[Context], bool] = lambda context: True) -> Verdict:
    return Verdict("not_offered", what, nearest, when)


def differs(what: str, nearest: str, when: Callable[[Context], bool] = lambda context: True) -> Verdict:
    return Verdict("different", what, nearest, when)


def protocols(
    reasons: Mapping[str, str], when: Callable[[Context], bool] = lambda context: True
) -> tuple[Verdict, ...]:
    """Return a verdict for each upstream protocol in `reasons`, which maps protocols to the reason why the engine
    refuses a site that uses the protocol.
    """

    def uses(name: str) -> Callable[[Context], bool]:
        return lambda context: (
            context.owner.handler == "proxy" and context.owner.upstream_protocol == name and when(context)
        )

    nearest = "Paddock does not deploy the site until you change this setting"
    return tuple(missing(reason, nearest, uses(name)) for name, reason in reasons.items())


def no_streams(*reasons: str) -> tuple[Verdict, ...]:
    """Return a verdict for each of the `reasons` (see streams.missing) why a web server cannot have stream servers."""
    nearest = "Paddock does not deploy the site until you change this setting"

    def has(reason: str) -> Callable[[Context], bool]:
        return lambda context: streams.missing(context.web_server) == reason

    return tuple(missing(reason, nearest, has(reason)) for reason in reasons)


TLS_CHALLENGES = missing(
    "of all web servers, only gallop proves domain names over TLS (TLS-ALPN-01)",
    "Paddock proves the domain names over HTTP (port 80)",
)

Row = dict[str, tuple[Verdict, ...]]  # engine -> differences; engines without an entry behave like nginx
