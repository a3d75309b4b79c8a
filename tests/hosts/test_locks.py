"""A host has one lock holder at a time, across threads, and a dead worker's lock expires soon."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from panel.core.claims import ORPHANED_AFTER
from panel.hosts.locks import BEATING_LEASE, HeldLocks, HostBusy, host_lock, host_locks
from panel.hosts.models import Host, HostLock

pytestmark = pytest.mark.django_db


@pytest.fixture
def host() -> Host:
    return Host.objects.create(name="web1", address="192.0.2.1", username="root")


def test_second_lock_holder_is_told_current_holder(host: Host) -> None:
    refused = pytest.raises(HostBusy, match="web1 is busy with deployment 1")
    with host_lock(host, "deployment 1"), refused as busy, host_lock(host, "run 2"):
        raise AssertionError("taken twice")
    assert busy.value.retry
    with host_lock(host, "run 2"):
        assert HostLock.objects.get(host=host).holder == "run 2"
    assert HostLock.objects.get(host=host).holder == ""


def test_lock_of_one_host_leaves_other_hosts_free(host: Host) -> None:
    other = Host.objects.create(name="web2", address="192.0.2.2", username="root")
    with host_lock(host, "a"), host_lock(other, "b"):
        assert set(HostLock.objects.values_list("holder", flat=True)) == {"a", "b"}


def test_lock_is_released_when_work_fails(host: Host) -> None:
    with pytest.raises(ZeroDivisionError), host_lock(host, "a"):
        raise ZeroDivisionError
    with host_lock(host, "b"):
        pass


def test_expired_lock_is_taken_over_and_old_holder_notices(host: Host) -> None:
    with host_lock(host, "dead worker") as held:
        HostLock.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        with host_lock(host, "sweep"):
            with pytest.raises(HostBusy, match="sweep"):
                held.extend()
            assert HostLock.objects.get(host=host).holder == "sweep"


def test_lock_can_be_extended(host: Host) -> None:
    with host_lock(host, "long work") as held:
        HostLock.objects.update(expires_at=timezone.now() + timedelta(seconds=1))
        held.extend()
        expires = HostLock.objects.get(host=host).expires_at
        assert expires is not None
        assert expires > timezone.now() + timedelta(seconds=60)


@pytest.mark.django_db(transaction=True)
def test_one_of_many_concurrent_holders_gets_lock(host: Host) -> None:
    everyone_else_refused = threading.Event()
    refused: list[int] = []

    def attempt(number: int) -> bool:
        try:
            with host_lock(host, f"worker {number}"):
                return everyone_else_refused.wait(60)
        except HostBusy:
            refused.append(number)
            if len(refused) == 7:
                everyone_else_refused.set()
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(attempt, range(8)))
    assert results.count(True) == 1
    assert len(refused) == 7


def test_locks_of_several_hosts_are_taken_all_or_none(host: Host) -> None:
    other = Host.objects.create(name="web2", address="192.0.2.2", username="root")
    refused = pytest.raises(HostBusy, match="web2 is busy with deployment 1")
    with host_lock(other, "deployment 1"), refused, host_locks({host: "run 2", other: "run 2"}):
        raise AssertionError("taken though one was busy")
    assert HostLock.objects.get(host=host).holder == ""
    with host_locks({host: "run 2", other: "run 2"}):
        assert set(HostLock.objects.values_list("holder", flat=True)) == {"run 2"}


def test_locks_of_free_hosts_are_taken(host: Host) -> None:
    other = Host.objects.create(name="web2", address="192.0.2.2", username="root")
    locks = HeldLocks()
    with host_lock(other, "run 1"):
        busy = locks.take({host: "deployment 2", other: "deployment 3"})
        assert [error.message.split(".")[0] for error in busy.values()] == ["web2 is busy with run 1"]
        locks.extend()
        locks.release([host])
        assert HostLock.objects.get(host=host).holder == ""
        assert HostLock.objects.get(host=other).holder == "run 1"


def test_lock_of_a_job_expires_together_with_the_job_of_a_lost_machine(host: Host) -> None:
    """Only workers of the same machine can see that the holder is gone; others wait until the lock expires."""
    locks = HeldLocks(BEATING_LEASE)
    locks.take({host: "deployment 1"})
    for _ in range(2):
        expires = HostLock.objects.get(host=host).expires_at
        assert expires is not None and expires <= timezone.now() + ORPHANED_AFTER
        locks.extend()


def test_lock_query_count_does_not_grow_with_hosts(host: Host, django_assert_max_num_queries: Any) -> None:
    hosts = [Host.objects.create(name=f"many{n}", address="192.0.2.9", username="root") for n in range(30)]
    locks = HeldLocks()
    with django_assert_max_num_queries(16):
        assert locks.take({one: f"deployment {one.pk}" for one in hosts}) == {}
        locks.extend()
        locks.release()
    assert set(HostLock.objects.values_list("holder", flat=True)) == {""}


def test_late_release_keeps_a_lock_that_the_same_job_has_taken_again(host: Host) -> None:
    """After a failure of the database the same process can run the job again before it releases the first lock."""
    first, second = HeldLocks(), HeldLocks()
    assert not first.take({host: "deployment 1"})
    assert not second.take({host: "deployment 1"})
    first.release()
    assert HostLock.objects.get(host=host).holder == "deployment 1"
    second.release()
    assert HostLock.objects.get(host=host).holder == ""
