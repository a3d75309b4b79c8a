"""A drained machine finishes its jobs and begins no other."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from panel.core.claims import Claim
from panel.core.draining import drain_begin, drain_end, is_draining
from panel.core.jobs import JobStatus
from panel.hosts.models import Host, HostJob


@pytest.fixture(autouse=True)
def undrained(transactional_db: None) -> Iterator[None]:
    yield
    drain_end()


def queued() -> HostJob:
    host = Host.objects.create(name=f"web-{Host.objects.count()}")
    return HostJob.objects.create(host=host, kind="check", status=JobStatus.QUEUED)


def drained(**options: object) -> str:
    output = io.StringIO()
    call_command("drain", stdout=output, **options)
    return output.getvalue()


def test_worker_of_a_drained_machine_begins_no_job() -> None:
    job = queued()
    assert "drained" in drained()
    assert Claim(HostJob).take([job.uuid]) == 0
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    assert "begin jobs again" in drained(end=True)
    assert Claim(HostJob).take([job.uuid]) == 1


def test_drain_waits_for_running_jobs_and_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panel.core.management.commands.drain.LOOK_EVERY_S", 0.05)
    job, claim = queued(), Claim(HostJob)
    assert claim.take([job.uuid]) == 1

    def end() -> None:
        time.sleep(0.5)
        claim.rows.update(status=JobStatus.SUCCEEDED)
        connection.close()

    thread = threading.Thread(target=end)
    thread.start()
    began = time.monotonic()
    output = drained()
    thread.join()
    assert time.monotonic() - began > 0.4
    assert output.count(f"waiting for host job {job.uuid}") == 1 and "drained" in output


def test_drain_gives_up_after_its_time_and_stays_drained() -> None:
    job = queued()
    Claim(HostJob).take([job.uuid])
    with pytest.raises(CommandError, match=f"{job.uuid}.*No other job begins on this host"):
        drained(timeout=0)
    assert is_draining()


def test_drain_does_not_wait_for_jobs_of_other_machines() -> None:
    job = queued()
    HostJob.objects.filter(pk=job.pk).update(status=JobStatus.RUNNING, claimed_by="other:1:2:0123456789ab:token")
    assert "drained" in drained(timeout=0)


def test_next_start_ends_the_draining() -> None:
    drain_begin()
    call_command("prepare", stdout=io.StringIO())
    assert not is_draining()
