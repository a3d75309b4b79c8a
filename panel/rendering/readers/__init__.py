"""Exact readers of the servers' own grammars: text back to a tree, as the server itself would see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Read:
    """One directive: its name and unquoted arguments as the server gets them; with a `body` it is a block.

    `line` and `end` are the lines it begins and ends on, counted from 1.
    """

    name: str
    args: tuple[str, ...]
    line: int
    body: tuple[Read, ...] | None = None
    end: int = 0

    def shape(self) -> object:
        """The tree without its values: what must not depend on any value."""
        inner = None if self.body is None else [child.shape() for child in self.body]
        return (self.name, len(self.args), inner)


class Unreadable(ValueError):
    """Text that the server would refuse, with the line at fault."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message
