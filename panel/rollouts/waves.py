"""Sizes of the waves of a rollout. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def waves_of(hosts: Sequence[T], first: int, percent: int) -> list[list[T]]:
    """Split the hosts into at most three waves: `first` hosts, then `percent` of all hosts, then the rest.

    The second wave is rounded up to whole hosts. Empty waves are left out.
    """
    second = -(-len(hosts) * percent // 100)
    ends = [first, first + second, len(hosts)]
    starts = [0, *ends]
    found = [list(hosts[start:end]) for start, end in zip(starts, ends, strict=False)]
    return [wave for wave in found if wave]
