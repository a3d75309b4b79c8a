"""Attempts until a limit refuses one, on hosts of any speed: counted attempts are forgotten while a test runs."""

from collections.abc import Callable
from itertools import count

from panel.accounts.guessing import Limit


def statuses_until_limited(attempt: Callable[[int], int], limit: Limit) -> list[int]:
    """Status codes of attempts 0, 1, ... up to the first 429, which is the last one.

    AssertionError if the limit comes before its free attempts, or not within three times as many.
    """
    statuses: list[int] = []
    for number in count():
        statuses.append(attempt(number))
        if statuses[-1] == 429:
            assert len(statuses) > limit.free, f"limited after {len(statuses) - 1} attempts"
            return statuses
        assert len(statuses) <= 3 * limit.free, "not limited"
    raise AssertionError("unreachable")
