"""Data of a parsed configuration: files, directives with their files and lines, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceFile:
    """A configuration file, as read from a host or an upload.

    `path` is the requested name, `real` the resolved path if different, `link` the target if `path` is a link. `exact`
    is False if the file has bytes that are not UTF-8; such a file cannot be written back.
    """

    path: str
    text: str
    real: str = ""
    link: str = ""
    mode: int = 0o644
    exact: bool = True


@dataclass(frozen=True)
class Node:
    """A directive, and its place in a configuration: lines `line` to `end` of `file`.

    `via` are the includes through which `file` was read, as (file, line).
    """

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
    """An error in a configuration file. `line` is 0 if the error concerns the whole file."""

    file: str
    line: int
    message: str


@dataclass
class Loaded:
    nodes: tuple[Node, ...] = ()
    faults: list[Fault] = field(default_factory=list)
    files: dict[str, SourceFile] = field(default_factory=dict)
