"""Parse the servers' own configuration grammars exactly, into the tree that the server would see."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Read:
    """One parsed directive: its name and unquoted arguments as the server gets them; a block has a `body`.

    `line` and `end` are its first and last line, counted from 1.
    """

    name: str
    args: tuple[str, ...]
    line: int
    body: tuple[Read, ...] | None = None
    end: int = 0

    def shape(self) -> object:
        """Return the names and argument counts of the directive and those inside it. Quoting is correct if no value
        changes this structure.
        """
        inner = None if self.body is None else [child.shape() for child in self.body]
        return (self.name, len(self.args), inner)


class Unreadable(ValueError):
    """Error for text that the server would reject, with the line of the error."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message
