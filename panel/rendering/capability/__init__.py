"""What each engine does with each field of a SiteSpec: the rows of the capability table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from panel.rendering.spec import InstallSpec, ServerBlock, SiteSpec

Severity = Literal["not_offered", "different"]
ENGINES = ("nginx", "apache", "openlitespeed", "native")


@dataclass(frozen=True)
class Context:
    """Where a value stands: its owner, the server block around it (if any), the site, the install."""

    owner: Any
    block: ServerBlock | None
    spec: SiteSpec
    install: InstallSpec


@dataclass(frozen=True)
class Verdict:
    """One way in which an engine departs from nginx's meaning of a field, and when it does."""

    severity: Severity
    what: str
    nearest: str
    when: Callable[[Context], bool] = lambda context: True


def missing(what: str, nearest: str, when: Callable[[Context], bool] = lambda context: True) -> Verdict:
    return Verdict("not_offered", what, nearest, when)


def differs(what: str, nearest: str, when: Callable[[Context], bool] = lambda context: True) -> Verdict:
    return Verdict("different", what, nearest, when)


Row = dict[str, tuple[Verdict, ...]]  # engine -> how it departs; engines without an entry do the same as nginx
