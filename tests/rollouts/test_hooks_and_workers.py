"""Hooks as gates, and rollouts whose worker dies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client
from pytest_django import Settings

from panel.core import webhooks
from panel.core.claims import Claim
from panel.deployments.models import Deployment
from panel.rollouts import advancing, undoing
from panel.rollouts.advancing import rollout_advance, rollouts_due
from panel.rollouts.models import Rollout, Wave
from panel.rollouts.services import rollout_undo
from tests.rollouts.conftest import Fleet
from tests.rollouts.test_waves import NEW, OLD
from tests.support.webhook_receiver import Receiver


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_hook_that_accepts_lets_each_wave_pass(fleet: Fleet, receiver: Receiver) -> None:
    fleet.change()
    rollout = fleet.go_on(fleet.start(hook_url=receiver.url))
    assert rollout.status == "succeeded", rollout.error
    assert [body.count(b"node-") for _path, _headers, body in receiver.requests] == [1, 1, 3]


@pytest.mark.parametrize("status", [302, 409, 500])
def test_hook_that_refuses_undoes_the_rollout(fleet: Fleet, receiver: Receiver, status: int) -> None:
    fleet.change()
    receiver.status = status
    rollout = fleet.go_on(fleet.start(hook_url=receiver.url))
    assert rollout.status == "undone" and f"The hook responded with status {status}." in rollout.error
    assert fleet.texts() == OLD


def test_hook_that_hangs_fails_the_wave_in_time(
    fleet: Fleet, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 1.0)
    receiver.delay_s = 5.0
    fleet.change()
    rollout = fleet.go_on(fleet.start(hook_url=receiver.url))
    assert rollout.status == "undone" and "The hook did not respond" in rollout.error


def test_hook_at_a_private_address_is_refused_at_the_start(fleet: Fleet, client: Client) -> None:
    fleet.change()
    plan = fleet.plan()
    client.force_login(fleet.machine.people.admin)
    values = {"first": 1, "percent": 20, "soak_s": 0, "most_errors": 1, "most_slower": 100}
    page = client.post(f"/rollouts/start/{plan.uuid}", values | {"hook_url": "http://127.0.0.1:9/"})
    assert page.status_code == 422 and "not a public address" in page.content.decode()
    assert not Rollout.objects.exists()
    assert Deployment.objects.get(pk=plan.pk).confirmed_at is None


class Killed(BaseException):
    """The worker's end: nothing that it had in mind is written."""


@pytest.mark.parametrize("is_bad", [False, True])
def test_worker_that_dies_between_steps_loses_and_doubles_nothing(
    fleet: Fleet, is_bad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each of these functions a worker dies once."""
    fleet.change()
    rollout = fleet.start(soak_s=0)
    deployed = Deployment.objects.count()
    died: set[str] = set()

    def dies_after(module: object, name: str) -> None:
        real = getattr(module, name)

        def work(*args: object) -> object:
            result = real(*args)
            if name not in died:
                died.add(name)
                raise Killed
            return result

        monkeypatch.setattr(module, name, work)

    for name in ("_begin", "_deploying", "_observing", "_passed", "_fail", "held_release"):
        dies_after(advancing, name)
    for name in ("_plan", "_confirm", "_cancel_waiting", "undo_plan", "deployments_confirm_themselves"):
        dies_after(undoing, name)
    if is_bad:
        _stop_answering(fleet, rollout)
    for _ in range(200):
        try:
            rollout_advance(rollout.uuid)
        except Killed:
            Rollout.objects.filter(pk=rollout.pk, status="running").update(heartbeat_at=None)
            assert rollouts_due() == [rollout.uuid]
        fleet.work()
        rollout.refresh_from_db()
        if rollout.is_finished:
            break
    assert rollout.status == ("undone" if is_bad else "succeeded"), rollout.error
    assert fleet.texts() == (OLD if is_bad else NEW)
    assert len(died) >= (6 if is_bad else 4), died
    undone = Deployment.objects.filter(kind="rollback", status="succeeded").count()
    assert (undone, Deployment.objects.exclude(kind="rollback").count()) == (int(is_bad), deployed)


def _stop_answering(fleet: Fleet, rollout: Rollout) -> None:
    """Let the first wave fail its observation."""
    fleet.work()
    (fleet.machine.root / "www" / "new-0" / "index.html").unlink()


def test_rollout_is_claimed_by_one_worker_at_a_time(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.start()
    assert Claim(Rollout).take([rollout.uuid]) == 1
    assert rollout_advance(rollout.uuid) is None
    assert rollouts_due() == []


def test_page_shows_evidence_and_undoes_with_one_click(fleet: Fleet, client: Client) -> None:
    fleet.change()
    plan = fleet.plan()
    client.force_login(fleet.machine.people.admin)
    assert f"/rollouts/start/{plan.uuid}" in client.get(f"/deployments/{plan.uuid}").content.decode()
    values = {"first": 1, "percent": 20, "soak_s": 0, "most_errors": 1, "most_slower": 100}
    page = client.post(f"/rollouts/start/{plan.uuid}", values)
    rollout = Rollout.objects.get()
    assert page.headers["Location"] == f"/rollouts/{rollout.uuid}"
    fleet.go_on(rollout)
    text = client.get(f"/rollouts/{rollout.uuid}").content.decode()
    assert "Wave 3" in text and "1 of 1 sites of the wave respond as expected." in text
    assert f'action="/rollouts/{rollout.uuid}/undo"' in text
    assert client.post(f"/rollouts/{rollout.uuid}/undo").status_code == 302
    fleet.go_on(rollout)
    assert (
        "Paddock rolled back every host to its previous configuration."
        in client.get(f"/rollouts/{rollout.uuid}").content.decode()
    )
    assert fleet.texts() == OLD
    assert str(rollout) in client.get("/rollouts/").content.decode()


def test_api_starts_pauses_and_shows_a_rollout(fleet: Fleet, client: Client) -> None:
    fleet.change()
    plan = fleet.plan()
    client.force_login(fleet.machine.people.admin)
    body = {"deployment": str(plan.uuid), "percent": 20, "soak_s": 0, "needs_approval": True}
    answer = client.post("/api/v1/rollouts/", body, content_type="application/json")
    assert answer.status_code == 202, answer.content
    place = answer.headers["Location"]
    rollout = Rollout.objects.get()
    fleet.go_on(rollout)
    shown = client.get(place).json()
    assert shown["status"] == "waiting" and [len(wave["hosts"]) for wave in shown["waves"]] == [1, 1, 3]
    assert client.post(f"{place}approve/").status_code == 202
    assert client.post(f"{place}approve/").status_code == 409
    fleet.go_on(rollout)
    assert client.post(f"{place}undo/").status_code == 202
    fleet.go_on(rollout)
    shown = client.get(place).json()
    assert shown["status"] == "undone"
    assert {row["undo_status"] for wave in shown["waves"][:2] for row in wave["hosts"]} == {"succeeded"}
    assert Wave.objects.get(position=3).status == "cancelled"


def test_undo_is_asked_for_while_a_wave_runs(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.start()
    rollout_undo(actor=fleet.owner, rollout=rollout)
    fleet.go_on(rollout)
    assert rollout.status == "undone" and fleet.texts() == OLD
