"""Rollouts in waves on real hosts: order, gates, undo."""

from __future__ import annotations

import datetime as dt
import threading
import time
from pathlib import Path

import pytest
from django.db import connection
from django.db.backends.signals import connection_created
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from panel.accounts.models import Role
from panel.core.errors import ApplicationError, Conflict
from panel.deployments.models import Deployment, DeploymentStatus, Health, SiteState, SiteStatus
from panel.deployments.planning import services as planning
from panel.deployments.windows.services import change_window_set
from panel.hosts.models import Host
from panel.hosts.services import hosts_tag
from panel.rollouts import gates
from panel.rollouts.advancing import rollout_advance, rollouts_due
from panel.rollouts.models import Rollout, Wave
from panel.rollouts.services import (
    Rules,
    rollout_end,
    rollout_pause,
    rollout_resume,
    rollout_start,
    rollout_undo,
    wave_approve,
)
from panel.rollouts.waves import waves_of
from panel.websites import services as websites
from tests.rollouts.conftest import Fleet
from tests.support.cast import user
from tests.support.http_client import ask
from tests.support.ports import free_port
from tests.support.waiting import eventually

OLD = [f"old {number}" for number in range(5)]
NEW = [f"new {number}" for number in range(5)]


@pytest.mark.parametrize(
    ("hosts", "first", "percent", "sizes"),
    [(2, 1, 10, [1, 1]), (5, 1, 20, [1, 1, 3]), (50, 1, 10, [1, 5, 44]), (3, 5, 10, [3]), (10, 1, 100, [1, 9])],
)
def test_sizes_of_waves(hosts: int, first: int, percent: int, sizes: list[int]) -> None:
    waves = waves_of(range(hosts), first, percent)
    assert [len(wave) for wave in waves] == sizes
    assert [host for wave in waves for host in wave] == list(range(hosts))


def test_each_wave_begins_after_the_one_before_passed(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.start()
    seen = [fleet.texts()]
    for _ in range(100):
        rollout_advance(rollout.uuid)
        fleet.work()
        if fleet.texts() != seen[-1]:
            seen.append(fleet.texts())
        rollout.refresh_from_db()
        if rollout.is_finished:
            break
    assert seen[1:] == [[*NEW[:1], *OLD[1:]], [*NEW[:2], *OLD[2:]], NEW]
    assert rollout.status == "succeeded", rollout.error
    assert fleet.waves(rollout) == ["succeeded"] * 3
    assert {row["gate"] for row in Wave.objects.get(position=1).evidence} == {"deployed", "answers", "responses"}


def test_configuration_that_fails_in_first_wave_never_reaches_other_hosts(fleet: Fleet) -> None:
    fleet.change()
    before = [fleet.config(number) for number in range(5)]
    rollout = fleet.start()
    Path(fleet.servers[0].paths["config_root"], "broken.conf").write_text("nonsense;\n")
    main = Path(fleet.servers[0].paths["main_config"])
    main.write_text(main.read_text().replace("http {", f"http {{ include {main.parent}/broken.conf;", 1))
    fleet.go_on(rollout)
    assert rollout.status == "undone" and "Wave 1 failed" in rollout.error
    assert fleet.waves(rollout) == ["failed", "cancelled", "cancelled"]
    assert [fleet.config(number) for number in range(1, 5)] == before[1:]
    assert fleet.texts() == OLD


def visit_the_broken_application(fleet: Fleet, number: int) -> None:
    """Visitors of a location whose application is down. The health page is fine."""
    time.sleep(1.1)  # logs have whole seconds, and the second of the change is not counted
    for _ in range(30):
        assert ask(fleet.ports[number], "/api/", host=f"site-{number}.example").status == 502


def test_5xx_responses_in_wave_two_undo_both_waves_and_leave_wave_three_untouched(fleet: Fleet) -> None:
    admin = fleet.machine.people.admin
    fleet.change()
    for number in range(5):
        block = fleet.sites[number].blocks.get()
        websites.block_update(actor=fleet.owner, block=block, access_log=str(fleet.log(number)))
        servers = [{"address": f"127.0.0.1:{free_port()}"}]
        upstream = websites.upstream_create(actor=admin, site=fleet.sites[number], name="app", servers=servers)
        values = {"pattern": "/api/", "handler": "proxy", "upstream": upstream}
        websites.location_create(actor=admin, block=block, **values)
    before = [fleet.config(number) for number in range(5)]
    rollout = fleet.start(soak_s=3)
    while fleet.waves(rollout)[1] != "observing":
        rollout_advance(rollout.uuid)
        fleet.work()
    visit_the_broken_application(fleet, 1)
    fleet.go_on(rollout)
    assert rollout.status == "undone", rollout.error
    assert "site-1 on node-1: 30 of 30 requests" in rollout.error
    assert fleet.waves(rollout) == ["undone", "undone", "cancelled"]
    assert fleet.texts() == OLD
    assert [fleet.config(number) for number in range(5)] == before
    failed = next(row for row in Wave.objects.get(position=2).evidence if row["gate"] == "responses")
    assert failed["passed"] is False and "only 0 of 0 requests before the deployment" in failed["words"]


def test_site_that_stops_answering_during_observation_undoes_the_rollout(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.start(soak_s=60)
    while fleet.waves(rollout)[0] != "observing":
        rollout_advance(rollout.uuid)
        fleet.work()
    (fleet.machine.root / "www" / "new-0" / "index.html").unlink()
    fleet.go_on(rollout)
    assert rollout.status == "undone" and "site-0" in rollout.error
    assert fleet.texts() == OLD


def test_gate_query_count_does_not_grow_with_hosts(fleet: Fleet) -> None:
    """Threads that ask the hosts make no query: each would open a connection to the database."""
    deployments = list(Deployment.objects.select_related("host"))

    def queries(count: int) -> int:
        SiteState.objects.update(reach=Health.UNKNOWN, reach_since=None)  # so that each observation is a change
        with CaptureQueriesContext(connection) as captured:
            assert gates.answers(Wave(), deployments[:count]).passed
        return len(captured)

    queries(5)  # replaces what the deployments observed
    opened: list[object] = []

    def note(**_: object) -> None:
        opened.append(threading.current_thread())

    connection_created.connect(note)
    try:
        assert queries(5) == queries(1)
    finally:
        connection_created.disconnect(note)
    assert opened == []


def test_pause_holds_the_next_wave_until_resumed(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.start()
    rollout_pause(actor=fleet.owner, rollout=rollout)
    fleet.go_on(rollout)
    assert rollout.status == "paused"
    fleet.go_on(rollout)
    assert fleet.texts()[1:] == OLD[1:]
    rollout_resume(actor=fleet.owner, rollout=rollout)
    fleet.go_on(rollout)
    assert rollout.status == "succeeded" and fleet.texts() == NEW


def test_rollout_that_is_ended_keeps_its_waves_and_starts_no_other(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.start(needs_approval=True)
    fleet.go_on(rollout)
    assert rollout.status == "waiting"
    rollout_end(actor=fleet.owner, rollout=rollout)
    fleet.go_on(rollout)
    assert rollout.status == "cancelled" and fleet.texts() == [*NEW[:1], *OLD[1:]]
    assert Deployment.objects.filter(batch=rollout.batch, status=DeploymentStatus.CANCELLED).count() == 4
    rollout_undo(actor=fleet.owner, rollout=rollout)
    fleet.go_on(rollout)
    assert rollout.status == "undone" and fleet.texts() == OLD


def test_finished_rollout_can_be_undone_with_one_action(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.go_on(fleet.start())
    assert fleet.texts() == NEW
    rollout_undo(actor=fleet.owner, rollout=rollout)
    fleet.go_on(rollout)
    assert rollout.status == "undone" and fleet.texts() == OLD
    assert set(SiteState.objects.values_list("status", flat=True)) == {SiteStatus.LIVE}
    with pytest.raises(Conflict):
        rollout_undo(actor=fleet.owner, rollout=rollout)


def test_undo_keeps_a_site_that_was_changed_since_and_says_so(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.go_on(fleet.start())
    fleet.change([3], root=str(fleet.machine.files("newer", "newer")))
    (plan,) = planning.deployment_plan(actor=fleet.owner, sites=[fleet.sites[3]])
    planning.deployment_confirm(actor=fleet.owner, deployment=plan)
    fleet.work()
    rollout_undo(actor=fleet.owner, rollout=rollout)
    fleet.go_on(rollout)
    assert fleet.texts() == [*OLD[:3], "newer", OLD[4]]
    assert rollout.status == "failed" and "node-3: The live revision of site-3 has changed" in rollout.error


def test_plan_that_became_stale_pauses_the_rollout(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.start(needs_approval=True)
    fleet.go_on(rollout)
    (plan,) = planning.deployment_plan(actor=fleet.owner, sites=[fleet.sites[1]])
    planning.deployment_confirm(actor=fleet.owner, deployment=plan)
    fleet.work()
    wave_approve(actor=fleet.owner, rollout=rollout)
    fleet.go_on(rollout)
    assert rollout.status == "paused" and "Paddock did not start wave 2. This plan is outdated" in rollout.error
    assert fleet.text(2) == "old 2"


def test_approval_of_another_person_is_needed(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.start(needs_other_person=True)
    fleet.go_on(rollout)
    with pytest.raises(ApplicationError, match="another person"):
        wave_approve(actor=fleet.owner, rollout=rollout)
    wave_approve(actor=user("second", Role.OPERATOR, fleet.machine.people.team), rollout=rollout)
    fleet.go_on(rollout)
    assert rollout.status == "waiting" and fleet.texts() == [*NEW[:2], *OLD[2:]]


def test_site_cannot_be_in_two_rollouts(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.start(needs_approval=True)
    fleet.go_on(rollout)
    with pytest.raises(Conflict, match="part of another rollout"):
        rollout_start(actor=fleet.owner, deployment=fleet.plan(), rules=Rules())


def test_other_team_sees_no_rollout_and_cannot_act_on_it(fleet: Fleet, client: Client) -> None:
    fleet.change()
    rollout = fleet.start(needs_approval=True)
    client.force_login(fleet.machine.people.outsider)
    assert client.get(f"/rollouts/{rollout.uuid}").status_code == 404
    assert str(rollout) not in client.get("/rollouts/").content.decode()
    for action in ("pause", "approve", "end", "undo", "resume"):
        assert client.post(f"/rollouts/{rollout.uuid}/{action}").status_code == 404


def test_rollout_starts_at_its_time_and_not_before(fleet: Fleet) -> None:
    fleet.change()
    rollout = fleet.start(start_at=timezone.now() + dt.timedelta(hours=1))
    assert rollouts_due() == []
    rollout_advance(rollout.uuid)
    fleet.work()
    assert fleet.texts() == OLD
    rollout.refresh_from_db()
    assert rollout.progress.startswith("The rollout starts at") and rollout.started_at is None
    Rollout.objects.update(start_at=timezone.now(), next_at=timezone.now())
    assert rollouts_due() == [rollout.uuid]
    fleet.go_on(rollout)
    assert rollout.status == "succeeded" and fleet.texts() == NEW and rollout.started_at is not None


def test_one_host_can_be_deployed_later_and_the_rollout_can_be_ended_before(fleet: Fleet) -> None:
    fleet.change([0])
    (plan,) = planning.deployment_plan(actor=fleet.owner, sites=[fleet.sites[0]])
    with pytest.raises(ApplicationError, match="at least two hosts"):
        rollout_start(actor=fleet.owner, deployment=plan, rules=Rules())
    with pytest.raises(ApplicationError, match="next 90 days"):
        rollout_start(actor=fleet.owner, deployment=plan, rules=Rules(start_at=timezone.now()))
    later = timezone.now() + dt.timedelta(days=1)
    rollout = rollout_start(actor=fleet.owner, deployment=plan, rules=Rules(start_at=later))
    rollout_end(actor=fleet.owner, rollout=rollout)
    fleet.go_on(rollout)
    assert rollout.status == "cancelled" and fleet.text(0) == "old 0"
    plan.refresh_from_db()
    assert plan.status == DeploymentStatus.CANCELLED


def test_wave_waits_for_the_window_of_its_hosts(fleet: Fleet) -> None:
    """The second wave's host is frozen; the rollout goes on when the freeze ends."""
    fleet.change()
    admin = fleet.machine.people.admin
    hosts_tag(actor=admin, hosts=[Host.objects.get(name="node-1")], add=["frozen"])
    ends_at = timezone.now() + dt.timedelta(days=1)
    window = change_window_set(
        actor=admin, name="Sale", kind="freeze", tags=["frozen"], begins_at=timezone.now(), ends_at=ends_at
    )
    rollout = fleet.start()

    def waits() -> bool:
        rollout_advance(rollout.uuid)
        fleet.work()
        rollout.refresh_from_db()
        return "node-1 cannot be changed" in rollout.progress

    assert eventually(waits, timeout_s=30)
    assert fleet.texts() == [*NEW[:1], *OLD[1:]]
    change_window_set(actor=admin, window=window, ends_at=timezone.now() + dt.timedelta(milliseconds=1))
    rollout.next_at = None
    rollout.save(update_fields=["next_at"])
    assert fleet.go_on(rollout).status == "succeeded" and fleet.texts() == NEW
