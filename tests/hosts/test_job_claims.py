"""A worker owns its claimed jobs while its heartbeat continues, and no job of another worker."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from panel.core import claims
from panel.core.claims import Claim
from panel.core.jobs import JobStatus
from panel.core.owners import owner_name
from panel.hosts.locks import HostBusy, host_lock
from panel.hosts.models import Host, HostJob, HostJobKind, HostLock
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def queued(count: int) -> list[HostJob]:
    host = Host.objects.create(name="web1", address="192.0.2.1", username="root")
    return [HostJob.objects.create(host=host, kind=HostJobKind.CHECK) for _ in range(count)]


def test_claimed_job_is_not_given_to_another_worker() -> None:
    rows = queued(3)
    first, second = Claim(HostJob), Claim(HostJob)
    assert first.take([rows[0].uuid, rows[1].uuid]) == 2
    assert second.take([row.uuid for row in rows]) == 1
    assert set(first.rows) == set(rows[:2])
    assert list(second.rows) == rows[2:]


def test_released_job_can_be_claimed_again() -> None:
    rows = queued(2)
    first, second = Claim(HostJob), Claim(HostJob)
    first.take([row.uuid for row in rows])
    first.release([rows[0].pk])
    assert second.take([row.uuid for row in rows]) == 1
    assert list(first.rows) == [rows[1]]


def test_worker_that_lost_its_claim_changes_nothing() -> None:
    (row,) = queued(1)
    asleep, awake = Claim(HostJob), Claim(HostJob)
    asleep.take([row.uuid])
    HostJob.objects.update(heartbeat_at=timezone.now() - claims.ORPHANED_AFTER * 2)
    assert claims.orphans_queue(HostJob) == [row.uuid]
    awake.take([row.uuid])
    asleep.release([row.pk])
    assert asleep.rows.update(status=JobStatus.FAILED) == 0
    assert list(awake.rows) == [row]


def test_jobs_are_given_up_when_they_exceed_their_time_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(claims, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(claims, "ORPHANED_AFTER", timedelta(seconds=0.5))
    monkeypatch.setattr(HostJob, "time_limit", timedelta(seconds=1))
    (row,) = queued(1)
    hanging, other = Claim(HostJob), Claim(HostJob)
    hanging.take([row.uuid])
    with hanging.heartbeat():
        assert eventually(lambda: claims.orphans_queue(HostJob) == [row.uuid])
        assert other.take([row.uuid]) == 1
        assert not hanging.rows.exists()
    assert "exceeded the time limit of 0:00:01" in caplog.text


def test_heartbeat_updates_jobs_and_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "HEARTBEAT_S", 0.05)
    rows = queued(2)
    claim = Claim(HostJob)
    claim.take([row.uuid for row in rows])
    old = timezone.now() - timedelta(hours=1)
    HostJob.objects.update(heartbeat_at=old)
    with host_lock(rows[0].host, "test") as locks, claim.heartbeat(locks):
        HostLock.objects.update(expires_at=old)
        assert eventually(lambda: not HostJob.objects.filter(heartbeat_at=old).exists())
        assert eventually(lambda: not HostLock.objects.filter(expires_at=old).exists())


def test_heartbeat_continues_for_remaining_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "HEARTBEAT_S", 0.05)
    ended, runs = queued(2)
    claim = Claim(HostJob)
    claim.take([ended.uuid, runs.uuid])
    with claim.heartbeat():
        claim.rows.filter(pk=ended.pk).update(status=JobStatus.SUCCEEDED)
        old = timezone.now() - timedelta(hours=1)
        HostJob.objects.update(heartbeat_at=old)
        assert eventually(lambda: not claim.rows.filter(heartbeat_at=old).exists())
    ended.refresh_from_db()
    assert ended.heartbeat_at == old


def killed_claim() -> str:
    """The token of a claim whose worker ran here and was killed."""
    host, pid, _start, place = owner_name().split(":")
    return f"{host}:{pid}:1:{place}:abcd0123"


def test_job_of_killed_worker_is_queued_at_once() -> None:
    (row,) = queued(1)
    now = timezone.now()
    HostJob.objects.update(status=JobStatus.RUNNING, claimed_by=killed_claim(), heartbeat_at=now)
    assert claims.orphans_queue(HostJob) == [row.uuid]


def test_lock_of_killed_worker_is_free_at_once() -> None:
    (row,) = queued(1)
    HostLock.objects.create(
        host=row.host, holder="deployment 1", owner=killed_claim(), expires_at=timezone.now() + timedelta(hours=1)
    )
    with host_lock(row.host, "deployment 2"):
        assert HostLock.objects.get().holder == "deployment 2"


def test_lock_of_another_machine_is_kept_until_expiry() -> None:
    (row,) = queued(1)
    HostLock.objects.create(
        host=row.host,
        holder="deployment 1",
        owner="web-9:1:1:000000000000",
        expires_at=timezone.now() + timedelta(hours=1),
    )
    with pytest.raises(HostBusy), host_lock(row.host, "deployment 2"):
        pass
