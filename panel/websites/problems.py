"""A reason why a site cannot be deployed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A problem. `where` is the place in the site's definition (blocks/0/listens), `message` the problem and its
    solution.
    """

    where: str
    message: str

    @property
    def field(self) -> str:
        return self.where.rpartition("/")[2]
