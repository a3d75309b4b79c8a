"""Resources of hosts: read from a real host, judged, kept, shown, and mailed about."""

from __future__ import annotations

import datetime as dt
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from panel.accounts.models import Role, User
from panel.alerts.selectors import alerts, mailed_alerts
from panel.audit.models import AuditEntry
from panel.hosts import retention
from panel.hosts.models import Host, HostReading, HostStatus
from panel.hosts.resources import problems, readings, selectors
from panel.hosts.resources.readings import Disk, Problem, Reading
from panel.hosts.resources.services import resources_record
from panel.hosts.services import host_update, register_local_host
from panel.hosts.watching import host_look
from panel.remote import pool
from tests.api.caller import caller_of
from tests.support.cast import signed_in, user

pytestmark = pytest.mark.django_db(transaction=True)
GIB = 2**30
VAR = Disk("/var", "ext4", 100 * GIB, 50 * GIB, 50 * GIB, 1000, 900, read_only=False)
WELL = Reading(
    uptime_s=3600, cpus=2, load=(0.1, 0.2, 0.3), memory_total=8 * GIB, memory_available=6 * GIB, disks=(VAR,)
)


@pytest.fixture
def here(settings: Any, tmp_path: Path) -> Iterator[Host]:
    """This machine as the local host, looked at once."""
    settings.LOCAL_HOST_ROOT = tmp_path / "host"
    settings.HOME = tmp_path
    host = register_local_host()
    Host.objects.filter(pk=host.pk).update(status=HostStatus.READY)
    assert host_look(host.pk) is not None
    host.refresh_from_db()
    yield host
    pool.close()


@pytest.fixture
def host(db: None) -> Host:
    return Host.objects.create(name="web-1", address="203.0.113.7", username="deploy", status=HostStatus.READY)


@pytest.fixture
def vera(db: None) -> User:
    return user("vera", Role.VIEWER)


def record(host: Host, reading: Reading, at: dt.datetime | None = None) -> list[Problem]:
    resources_record(host, reading, at or timezone.now())
    return list(readings.loaded(host.resources).problems)  # type: ignore[union-attr]


def filled(share: float, disk: Disk = VAR) -> Reading:
    used = share * disk.total
    return replace(WELL, disks=(replace(disk, used=used, free=disk.total - used),))


def test_reading_agrees_with_the_systems_own_tools(here: Host) -> None:
    reading = selectors.last_reading(here)
    assert reading is not None
    lines = subprocess.run(["df", "-P", "-B1", "/"], capture_output=True, text=True, check=True).stdout.splitlines()
    total, _used, free = (int(word) for word in lines[1].split()[1:4])
    root = next(disk for disk in reading.disks if disk.mount == "/")
    assert root.total == total
    assert abs(root.free - free) < 0.05 * total
    free_lines = subprocess.run(["free", "-b"], capture_output=True, text=True, check=True).stdout.splitlines()
    memory = [int(word) for word in free_lines[1].split()[1:]]
    assert reading.memory_total == memory[0]
    assert abs((reading.memory_available or 0) - memory[-1]) < 0.2 * memory[0]
    assert reading.clock_offset_s is not None and abs(reading.clock_offset_s) < 1
    assert len(reading.load) == 3 and (reading.uptime_s or 0) > 0


def test_second_look_knows_how_busy_the_processors_were(here: Host) -> None:
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        pass
    host_look(here.pk)
    here.refresh_from_db()
    reading = selectors.last_reading(here)
    assert reading is not None and reading.cpu_share is not None
    assert 0 < reading.cpu_share <= 1
    row = HostReading.objects.get(host=here)
    assert row.count == 2 and row.cpu == pytest.approx(reading.cpu_share)
    assert row.disk_most == pytest.approx(reading.disk_share, abs=0.01)


def test_disk_problem_begins_at_one_limit_and_ends_at_a_lower_one(host: Host) -> None:
    assert record(host, filled(0.89)) == []
    assert record(host, filled(0.91)) == [Problem("disk", "/var")]
    assert record(host, filled(0.88)) == [Problem("disk", "/var")]
    assert record(host, filled(0.86)) == []


def test_large_disk_with_room_left_is_no_problem_until_it_is_full(host: Host) -> None:
    large = replace(VAR, total=4000 * GIB)
    assert record(host, filled(0.92, large)) == []
    assert record(host, filled(0.98, large)) == [Problem("disk", "/var")]


def test_short_peak_of_memory_is_no_problem(host: Host) -> None:
    low = replace(WELL, memory_available=0.1 * GIB)
    assert record(host, low) == []
    assert record(host, WELL) == []
    assert record(host, low) == []
    assert record(host, low) == [Problem("memory")]


def test_file_system_that_becomes_read_only_is_a_problem_until_it_is_writable(host: Host) -> None:
    broken = replace(WELL, disks=(replace(VAR, read_only=True),))
    assert record(host, broken) == [], "it may be meant to be read-only"
    assert record(host, WELL) == []
    assert record(host, broken) == [Problem("read_only", "/var")]
    assert record(host, broken) == [Problem("read_only", "/var")]
    assert record(host, WELL) == []


def test_wrong_clock_and_high_load_are_problems(host: Host) -> None:
    wrong = replace(WELL, clock_offset_s=-95.0, load=(9.0, 9.0, 9.0))
    assert record(host, wrong) == [Problem("load")]
    assert record(host, wrong) == [Problem("load"), Problem("clock")]
    words = [trouble.words for trouble in selectors.host_troubles(host)]
    assert words == [
        "The load average over 15 minutes is 9.0 on 2 CPUs",
        "The clock is 95 seconds behind the panel's clock",
    ]


def test_clock_is_compared_within_the_time_of_the_request() -> None:
    assert readings.reading_of({"time": 105.0}, asked_at=100.0, received_at=110.0).clock_offset_s == 0
    assert readings.reading_of({"time": 150.0}, asked_at=100.0, received_at=110.0).clock_offset_s == 40
    assert readings.reading_of({"time": 70.0}, asked_at=100.0, received_at=110.0).clock_offset_s == -30


def test_problems_are_on_the_page_in_the_api_and_in_mails_until_they_end(host: Host) -> None:
    admin, viewer = user("ada", Role.ADMIN), user("vera", Role.VIEWER)
    record(host, replace(filled(0.95), reboot_needed=True, reboot_packages=("linux-image",)))
    for address in ("/hosts/web-1/", "/hosts/web-1/resources/"):
        page = signed_in(viewer).get(address).content.decode()
        assert "Disk almost full" in page and "The file system /var is 95 % full; 5.0 GiB are free" in page, address
        assert "linux-image" in page
    found: Any = caller_of(admin).get("hosts/web-1/resources/")
    found = found.json()
    assert [(row["kind"], row["mount"]) for row in found["problems"]] == [("disk", "/var")]
    assert found["reading"]["disks"][0]["used_share"] == pytest.approx(0.95)
    assert found["history"][0]["disk_most"] == pytest.approx(0.95)
    (mailed,) = mailed_alerts(viewer, 10)
    assert (mailed.title, mailed.label) == ("web-1", "Disk almost full")
    assert [alert.status for alert in alerts(viewer, 10)] == ["resources", "reboot"]
    record(host, WELL)
    assert mailed_alerts(viewer, 10) == []


def test_each_problem_of_a_host_has_a_mail_of_its_own(host: Host) -> None:
    disks = (filled(0.95).disks[0], replace(filled(0.95).disks[0], mount="/home"))
    record(host, replace(WELL, disks=disks, load=(9.0, 9.0, 9.0)))
    assert len({alert.key for alert in mailed_alerts(user("vera", Role.VIEWER), 10)}) == 3


def test_old_reading_says_nothing_about_the_present(host: Host) -> None:
    record(host, filled(0.95), timezone.now() - dt.timedelta(minutes=11))
    admin = User.objects.create_user("admin", role=Role.ADMIN)
    assert selectors.troubles(admin) == [] and selectors.host_troubles(host) == []
    page = signed_in(user("vera", Role.VIEWER)).get("/hosts/web-1/resources/").content.decode()
    assert "too old to show the current state" in page


def test_history_keeps_means_and_highest_values_for_fourteen_days(host: Host) -> None:
    start = timezone.now().replace(minute=10, second=0, microsecond=0)
    for minute, available in ((0, 6), (1, 2), (2, 4)):
        record(host, replace(WELL, memory_available=available * GIB), start + dt.timedelta(minutes=minute))
    record(host, WELL, start + dt.timedelta(minutes=10))
    first, second = selectors.history(host, start)
    assert first.count == 3
    assert [first.memory, first.memory_most] == pytest.approx([0.5, 0.75])
    assert second.count == 1
    assert retention.readings_forget(start + dt.timedelta(days=14, minutes=5)) == 1
    assert selectors.history(host, start) == [second]


def test_page_draws_the_history(host: Host) -> None:
    start = timezone.now() - dt.timedelta(hours=2)
    for step in range(6):
        record(host, filled(0.5 + step / 20), start + dt.timedelta(minutes=20 * step))
    page = signed_in(user("vera", Role.VIEWER)).get("/hosts/web-1/resources/?span=week").content.decode()
    assert page.count('class="chart-svg"') == 2
    assert "CPU, memory and disk in use from" in page


def test_reading_survives_storage(host: Host) -> None:
    reading = replace(WELL, problems=(Problem("load"),), reboot_packages=("a", "b"), cpu_share=0.25)
    assert readings.loaded(readings.stored(reading)) == reading
    assert readings.loaded({}) is None
    assert readings.loaded({"cpus": 1}) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["busy", "mount", "free"]), inner),
    max_leaves=5,
)
NAMES = ("time", "uptime_s", "cpus", "load", "cpu", "memory", "files", "disks", "reboot")
HOSTILE_DISK = st.fixed_dictionaries(
    dict.fromkeys(("total", "used", "free", "inodes", "inodes_free", "read_only"), JSON),
    optional={"mount": st.text(), "type": st.text()},
)


@given(
    st.dictionaries(st.sampled_from(NAMES), JSON),
    st.lists(HOSTILE_DISK, max_size=40),
    st.sampled_from([1e-300, 1.0, 1e18]),
)
@examples(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_hostile_host_cannot_break_its_page(
    host: Host, vera: User, data: dict[str, Any], disks: list[Any], memory: float
) -> None:
    sizes = {"total": memory, "available": 0.0, "swap_total": 1e18, "swap_free": 1e18}
    for response in (data, data | {"disks": disks, "memory": sizes, "load": [memory] * 3, "cpus": 1e-300}):
        record(host, readings.reading_of(response, asked_at=1.0, received_at=2.0))
        host.refresh_from_db()
        selectors.host_troubles(host)
    assert signed_in(vera).get("/hosts/web-1/resources/").status_code == 200
    assert caller_of(vera).get("hosts/web-1/resources/").status_code == 200


def test_names_of_problems_cover_every_kind() -> None:
    for kind in problems.KINDS:
        problem = Problem(kind, "/var" if kind in ("disk", "inodes", "read_only") else "")
        reading = replace(WELL, files_open=9, files_most=10, clock_offset_s=40.0)
        assert problems.label(problem) and problems.words(problem, reading)


def test_edit_of_a_host_does_not_put_readings_into_the_audit_log(host: Host) -> None:
    record(host, filled(0.95))
    values: dict[str, Any] = {"password": "x" * 20, "address": "203.0.113.8", "site_roots": ["/srv/www"]}
    host_update(actor=user("ada", Role.ADMIN), host=host, **values)
    entry = AuditEntry.objects.get(action="host.update")
    assert "resources" not in str(entry.before) + str(entry.after)
