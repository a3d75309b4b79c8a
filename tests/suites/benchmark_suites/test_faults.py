"""Faults during a suite: its run ends with a reason, the tool's output is kept, and nothing remains.

The agent, the servers of the test bed and the load tool are real. The tests find and break them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connections
from django.urls import reverse

from panel.accounts.models import User
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import Round, Run, RunStatus, SuiteStatus
from panel.benchmarks.runs import execution, measuring
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.definitions import Network
from panel.benchmarks.suites.services import suite_advance, suite_start
from panel.core.claims import Attempt
from panel.hosts.models import Host
from panel.remote import links, pool, ssh
from tests.suites.benchmark_suites.suite_runner import add_web_servers, carried_out, local_host, ssh_host
from tests.support.cast import signed_in
from tests.support.namespace_hosts import Machine, Switch
from tests.support.process import tool
from tests.support.sshd import SshServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
SLUG = "small-static-files"


@pytest.fixture
def temporary(server_root: Path, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where agents put stands and runs. Whatever happened, neither folders nor processes are there afterwards."""
    settings.LOCAL_HOST_ROOT = server_root / "host"
    folder = server_root / "temporary"
    folder.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    pool.close()
    assert eventually(lambda: not below(folder), timeout_s=60), below(folder)
    assert not [path.name for path in folder.iterdir() if "paddock-" in path.name]


@pytest.fixture
def here(temporary: Path) -> Host:
    host = local_host()
    add_web_servers(host)
    return host


def below(folder: Path) -> dict[int, str]:
    """Processes that work in or below the folder: pid -> name."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            if (entry / "cwd").readlink().is_relative_to(folder):
                found[int(entry.name)] = (entry / "comm").read_text().strip()
        except OSError:
            continue
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def while_measuring(folder: Path, deed: Callable[[int], object], tool: str = "ab", times: int = 1) -> Iterator[None]:
    """`deed(pid of the load tool)` as soon as it runs, so many times."""
    over = threading.Event()
    done: set[int] = set()

    def watch() -> None:
        while len(done) < times and not over.wait(0.005):
            for pid, name in below(folder).items():
                if name == tool and pid not in done:
                    deed(pid)
                    done.add(pid)
                    break

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert len(done) == times, f"the load tool ran {len(done)} times"


def shortened(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    """One case of the suite, one round of a few seconds: long enough to be met in the middle."""
    suite = SUITES[SLUG]
    arguments = {"concurrency": 2, "duration_s": 3}
    case = replace(suite.short[0], **{"arguments": arguments, "rounds": 1, "idle_s": 0.0, **changed})
    monkeypatch.setitem(SUITES, SLUG, replace(suite, short=(case,)))


def carried(operator: User, host: Host) -> Run:
    """A run of the one case on nginx; the suite itself comes to its end in any case."""
    row = suite_start(actor=operator, suite=SLUG, preset="short", host=host, setups=["nginx"])
    (run,) = carried_out(row)
    assert row.status == SuiteStatus.FINISHED
    return run


def kept() -> Round:
    return Round.objects.get(number=1)


def test_run_reports_killed_load_tool(
    operator: User, here: Host, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened(monkeypatch)
    with while_measuring(temporary, lambda pid: os.kill(pid, signal.SIGKILL)):
        run = carried(operator, here)
    assert run.status == RunStatus.INVALID
    assert run.reasons[0].startswith(
        "nginx: 0 of 1 rounds have a result; ab was stopped by signal SIGKILL from another process"
    )
    assert kept().exit_code == -signal.SIGKILL


def test_crashed_load_tool_is_retried_and_reported(
    operator: User, here: Host, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened(monkeypatch, arguments={"concurrency": 2, "duration_s": 1})
    with while_measuring(temporary, lambda pid: os.kill(pid, signal.SIGSEGV)):
        run = carried(operator, here)
    assert run.status != RunStatus.INVALID, run.reasons
    words = "ab crashed (SIGSEGV) and reported no figures; the round was repeated."
    assert kept().metrics["requests"] > 0 and kept().metrics["remarks"][0] == words
    assert kept().output.startswith(f"paddock: {words}\n")
    page = signed_in(operator).get(reverse("benchmarks:detail", args=[run.uuid])).content.decode()
    assert f"nginx, round 1: {words}" in page


def test_run_fails_when_load_tool_always_crashes(
    operator: User, here: Host, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened(monkeypatch)
    with while_measuring(temporary, lambda pid: os.kill(pid, signal.SIGSEGV), times=1 + measuring.REPEATS):
        run = carried(operator, here)
    assert run.status == RunStatus.INVALID
    why = "nginx: 0 of 1 rounds have a result; ab crashed (SIGSEGV); Paddock tried the round 3 times. This is a bug"
    assert run.reasons[0].startswith(why)


def test_run_reports_hanging_load_tool(
    operator: User, here: Host, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened(monkeypatch, timeout_s=4)
    with while_measuring(temporary, lambda pid: os.kill(pid, signal.SIGSTOP)):
        run = carried(operator, here)
    assert run.status == RunStatus.INVALID
    assert "ab exceeded the time limit and was stopped" in run.reasons[0]


def test_round_is_repeated_when_siege_hangs(
    operator: User, here: Host, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = SUITES[SLUG]
    arguments = {"concurrency": 2, "duration_s": 3}
    case = replace(suite.short[0], tool=Tool.SIEGE, arguments=arguments, rounds=1, warmup_s=0, idle_s=0.0)
    monkeypatch.setitem(SUITES, SLUG, replace(suite, short=(case,)))
    monkeypatch.setattr(measuring, "SIEGE_END_S", 3.0)
    with while_measuring(temporary, lambda pid: os.kill(pid, signal.SIGSTOP), "siege"):
        run = carried(operator, here)
    assert run.error == ""
    assert kept().error == "" and kept().metrics["requests"] > 0
    assert "siege hung at the end of this round" in kept().output


def test_run_reports_arguments_that_tool_of_host_rejects(
    operator: User, here: Host, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's version of a tool is older or newer than the panel expects."""
    shortened(monkeypatch)
    real = measuring.command

    def other(*arguments: Any, **named: Any) -> Any:
        built = real(*arguments, **named)
        return replace(built, argv=[*built.argv[:-1], "-c", "3", "-n", "2", built.argv[-1]])

    monkeypatch.setattr(measuring, "command", other)
    run = carried(operator, here)
    assert run.status == RunStatus.INVALID
    words = f"{tool('ab')}: Cannot use concurrency level greater than total number of requests"
    assert run.reasons == [f"nginx: 0 of 1 rounds have a result; ab printed no result: {words}."]
    assert "Usage: " in kept().output, "the tool's own words are kept whole"


def test_run_reports_crashed_servers(
    operator: User, here: Host, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened(monkeypatch)

    def kill(_: int) -> None:
        for pid, name in below(temporary).items():
            if name == "nginx":
                with suppress(ProcessLookupError):  # a worker whose master has just been killed ends by itself
                    os.kill(pid, signal.SIGKILL)

    with while_measuring(temporary, kill):
        run = carried(operator, here)
    assert run.status == RunStatus.FAILED
    assert "nginx ended during the run" in run.error
    assert kept().finished_at is not None, "what the tool made of it is kept"


def test_testbed_of_killed_worker_is_removed_and_reported(
    operator: User, here: Host, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is a separate process. Its agent removes the test bed; the next worker asks and reports it."""
    shortened(monkeypatch, network=Network(50, 2))
    row = suite_start(actor=operator, suite=SLUG, preset="short", host=here, setups=["nginx"])
    suite_advance(row)
    run = row.runs.get()
    seen: list[str] = []

    def cut(tool: int) -> None:
        seen.extend(below(temporary).values())
        os.kill(parent(parent(tool)), signal.SIGKILL)

    for open_one in connections.all():  # neither a connection nor a pool of them may be shared with a child
        open_one.close()
        getattr(open_one, "close_pool", lambda: None)()
    worker = os.fork()
    if worker == 0:  # it never comes back from here
        execution.run_execute(run.uuid)
        os._exit(1)
    with while_measuring(temporary, cut):
        _, status = os.waitpid(worker, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert {"ab", "nginx"} <= set(seen), "it was in the middle"
    assert execution.orphans_end() == [run.uuid]
    assert execution.orphan_ask(run.uuid) == Attempt.DONE
    run.refresh_from_db()
    assert run.status == RunStatus.FAILED
    assert run.error.startswith("The panel's worker stopped during this run.")
    assert run.error.endswith("The run left nothing on here.")
    assert set(run.fingerprint["testbeds"]) == {"here"} and run.fingerprint["testbeds"]["here"]["namespaces"]
    suite_advance(row)
    row.refresh_from_db()
    assert row.status == SuiteStatus.FINISHED, "the suite goes on without it"


@pytest.fixture
def small_disk(temporary: Path) -> Iterator[Path]:
    """A file system of its own for test beds and runs. It holds what a test bed leaves free, and little more."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m,mode=755", "paddock-test", str(temporary)], check=True)
    try:
        yield temporary
    finally:
        pool.close()
        subprocess.run(["umount", "-l", str(temporary)], check=True)


def fill(folder: Path, *, left: int = 0) -> None:
    """Leaves `left` bytes free."""
    block = bytes(1 << 20)
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(block):
                pass
        except OSError:
            file.truncate(file.tell() - left)


def test_run_reports_full_disk_before_start(
    operator: User, here: Host, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened(monkeypatch)
    fill(small_disk, left=2 * 4096)  # a disk without any room at all is not taken for temporary files
    run = carried(operator, here)
    assert run.status == RunStatus.FAILED
    assert "is full; free some space, then run again" in run.error


def test_run_reports_disk_that_fills_up(
    operator: User, here: Host, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened(monkeypatch)
    with while_measuring(small_disk, lambda _: fill(small_disk)):
        run = carried(operator, here)
    assert run.status == RunStatus.INVALID
    assert "The host's disk is full, so the output of ab is incomplete" in run.reasons[0]


@pytest.mark.parametrize("victim", ["the agent", "the connection"])
def test_run_reports_host_that_goes_away(
    operator: User,
    temporary: Path,
    server_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    victim: str,
) -> None:
    """A new agent is asked for leftovers and finds none."""
    shortened(monkeypatch)
    sshd = SshServer(server_root / "sshd")
    sshd.environment["TMPDIR"] = str(temporary)
    with sshd:
        host = ssh_host(sshd)
        add_web_servers(host)

        def cut(tool: int) -> None:
            agent = parent(tool)
            os.kill(agent if victim == "the agent" else parent(agent), signal.SIGKILL)

        with while_measuring(temporary, cut):
            run = carried(operator, host)
        assert run.status == RunStatus.FAILED
        assert "connection to there broke" in run.error
        assert run.error.endswith("The run left nothing on there.")
        assert kept().error, "the round says how it ended"
        pool.close()


def test_run_reports_host_restart(
    operator: User, temporary: Path, server_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host loses power in the second round. When it is back, its boot id shows the restart."""
    shortened(monkeypatch, rounds=2, warmup_s=0, network=Network(50, 2))
    monkeypatch.setattr(ssh, "KEEPALIVE_S", 1)
    monkeypatch.setattr(links, "IDLE_S", 0.5)
    with Switch() as switch, Machine(server_root / "machine", switch, TMPDIR=str(temporary)) as machine:
        host = ssh_host(machine.sshd)
        add_web_servers(host)
        inside: list[str] = []

        def fail(first: int) -> None:
            assert eventually(lambda: [pid for pid, name in below(temporary).items() if name == "ab" and pid != first])
            inside.extend(below(temporary).values())
            machine.crash()
            time.sleep(2.0)
            machine.boot()

        with while_measuring(temporary, fail):
            run = carried(operator, host)
        assert {"ab", "nginx"} <= set(inside), "it was in the middle"
        assert run.status == RunStatus.FAILED
        assert "there restarted during the run: it was reachable again" in run.error
        assert f"{machine.boot_id[:8]} now" in run.error
        assert run.error.endswith("The run left nothing on there.")
        rounds = {row.number: row for row in Round.objects.all()}
        assert "Requests per second" in rounds[1].output, "what was measured until then is kept"
        assert rounds[2].error
        # A disk outlives a restart: what lay in temporary folders is taken away by the next agent.
        assert not [path.name for path in temporary.iterdir() if "paddock-" in path.name]
        assert machine.interfaces() == {"lo", "eth0"}
        pool.close()
