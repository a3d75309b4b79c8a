"""The steps of a transaction that the agent reports, and when."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from agents.host.errors import Refusal
from agents.host.steps import Outbox, Steps


@pytest.fixture
def heard() -> queue.SimpleQueue[dict[str, Any]]:
    return queue.SimpleQueue()


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent because it was held for long."""
    monkeypatch.setattr(Outbox, "HOLD_S", 3600.0)


def all_of(heard: queue.SimpleQueue[dict[str, Any]]) -> list[tuple[str, str]]:
    found = []
    while not heard.empty():
        event = heard.get()
        found.append((event["name"], event["status"]))
    return found


def test_long_step_is_reported_while_running(heard: queue.SimpleQueue[dict[str, Any]]) -> None:
    steps = Steps(heard.put)
    with steps.streamed(), steps.step("check"):
        event = heard.get(timeout=30)
        assert (event["name"], event["status"]) == ("check", "running")


def test_steps_in_result_are_not_sent_as_events(never: None, heard: queue.SimpleQueue[dict[str, Any]]) -> None:
    steps = Steps(heard.put)
    with steps.streamed(), steps.step("check"):
        pass
    assert all_of(heard) == []
    assert [step["name"] for step in steps.result("applied")["steps"]] == ["check"]


def test_all_steps_are_sent_before_error(never: None, heard: queue.SimpleQueue[dict[str, Any]]) -> None:
    steps = Steps(heard.put)
    with pytest.raises(Refusal), steps.streamed():
        with steps.step("lock"):
            pass
        with steps.step("check"):
            raise Refusal("drift", "edited")
    assert all_of(heard) == [("lock", "succeeded"), ("check", "failed")]


def test_steps_of_same_name_are_reported_separately(never: None, heard: queue.SimpleQueue[dict[str, Any]]) -> None:
    outbox = Outbox(heard.put)
    for began in (1.0, 2.0):
        for status in ("running", "succeeded"):
            outbox.put({"name": "test", "status": status, "started_at": began})
    outbox.put({"name": "switch", "status": "running", "started_at": 3.0})
    outbox.flush()
    assert all_of(heard) == [("test", "succeeded"), ("test", "succeeded"), ("switch", "running")]
