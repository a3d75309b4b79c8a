"""A reason why a site cannot be deployed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One fault in a site's definition. `where` is its place (blocks/0/listens), `message` names the fault and the
    solution.
    """

    where: str
    message: str

    @property
    def field(self) -> str:
        return self.where.rpartition("/")[2]
