"""Exact parsers of the servers' own grammars: from text to the tree that the server would see."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Read:
    """One directive: its name and unquoted arguments as the server gets them; a block has a `body`.

    `line` and `end` are its first and last line, counted from 1.
    """

    name: str
    args: tuple[str, ...]
    line: int
    body: tuple[Read, ...] | None = None
    end: int = 0

    def shape(self) -> object:
        """The tree without its values: the structure, which must not depend on any value."""
        inner = None if self.body is None else [child.shape() for child in self.body]
        return (self.name, len(self.args), inner)


class Unreadable(ValueError):
    """Text that the server would reject, with the line of the error."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message
