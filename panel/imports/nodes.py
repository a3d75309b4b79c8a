"""A configuration as it was read: files, directives with where they stand, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceFile:
    """A file as it was found: `path` is the name it was asked for by, `real` where it lies and `link` what the link
    holds when `path` is one. Not `exact`: it has bytes that are no UTF-8, so it cannot be written back."""

    path: str
    text: str
    real: str = ""
    link: str = ""
    mode: int = 0o644
    exact: bool = True


@dataclass(frozen=True)
class Node:
    """A directive with where it stands (`line` to `end` of `file`); `via` are the includes that led there."""

    name: str
    args: tuple[str, ...]
    file: str
    line: int
    end: int
    body: tuple[Node, ...] | None = None
    via: tuple[tuple[str, int], ...] = ()

    @property
    def low(self) -> str:
        return self.name.lower()

    @property
    def value(self) -> str:
        return self.args[0] if self.args else ""

    def all(self) -> Iterator[Node]:
        yield self
        for child in self.body or ():
            yield from child.all()


@dataclass(frozen=True)
class Fault:
    """What could not be read, and where; `line` 0: the file itself."""

    file: str
    line: int
    message: str


@dataclass
class Loaded:
    nodes: tuple[Node, ...] = ()
    faults: list[Fault] = field(default_factory=list)
    files: dict[str, SourceFile] = field(default_factory=dict)
