"""Configuration as a tree of directives, built by the engine modules and printed by templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).resolve().parents[2] / "templates" / "servers"


@dataclass(frozen=True)
class Directive:
    """Directive with its unquoted arguments; a block if it has a `body`. `comment` is printed on the line above."""

    name: str
    args: tuple[str, ...] = ()
    body: tuple[Node, ...] | None = None
    comment: str = ""
    gap: bool = False  # print an empty line before it


@dataclass(frozen=True)
class Raw:
    """Raw directives, already checked by `snippets.check` and printed unchanged."""

    text: str
    comment: str = "Raw directives of this site"


@dataclass(frozen=True)
class Lines:
    """Directive of OpenLiteSpeed whose value has several lines."""

    name: str
    lines: tuple[str, ...]
    comment: str = ""


Node = Directive | Raw | Lines


def directive(name: str, *args: object, comment: str = "", gap: bool = False) -> Directive:
    return Directive(name, tuple(str(argument) for argument in args), comment=comment, gap=gap)


def block(name: str, *args: object, body: Iterable[Node], comment: str = "", gap: bool = True) -> Directive:
    return Directive(name, tuple(str(argument) for argument in args), tuple(body), comment, gap)


@lru_cache(maxsize=16)
def _environment(engine: str, line: Callable[[Directive], str]) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES / engine),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 -- not HTML; `line` quotes every word for the server's own grammar
    )
    environment.filters["line"] = line
    environment.tests["lines"] = lambda node: isinstance(node, Lines)
    environment.tests["raw"] = lambda node: isinstance(node, Raw)
    return environment


def print_tree(engine: str, line: Callable[[Directive], str], template: str, **context: Any) -> str:
    """Render the template `templates/servers/<engine>/<template>`. `line` converts a directive's name and arguments to
    quoted text.
    """
    return _environment(engine, line).get_template(template).render(**context)
