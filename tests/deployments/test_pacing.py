"""A rollout to many hosts leaves room for other deployments."""

from __future__ import annotations

from panel.deployments.execution.pacing import Pace


def test_pace_leaves_no_room_above_its_limit_until_a_transaction_ends() -> None:
    pace = Pace(most=2, counted_s=60)
    pace.sent(1)
    assert pace.has_room()
    pace.sent(2)
    assert not pace.has_room()
    pace.ended([1, 99])
    assert pace.has_room()


def test_slow_host_stops_counting_so_that_others_do_not_wait_for_it() -> None:
    pace = Pace(most=2, counted_s=0.0)
    pace.sent(1)
    pace.sent(2)
    assert pace.has_room()


def test_transaction_that_is_sent_again_is_counted_once() -> None:
    pace = Pace(most=2, counted_s=60)
    pace.sent(1)
    pace.sent(1)
    assert pace.has_room()
