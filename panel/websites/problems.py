"""Problem: a reason why a site cannot be deployed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A reason why a site cannot be deployed. `where` is its place in the definition (blocks/0/listens); `message`
    names the fault and the solution.
    """

    where: str
    message: str

    @property
    def field(self) -> str:
        return self.where.rpartition("/")[2]
