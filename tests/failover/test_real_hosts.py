"""Virtual addresses on real hosts: keepalived and nginx in networks of their own, reached over SSH."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from panel.accounts.models import User
from panel.alerts.virtual_addresses import virtual_address_alerts
from panel.core.jobs import JobStatus
from panel.failover import execution, services
from panel.failover.models import KeepalivedHost, VirtualAddress
from panel.failover.selectors import is_changed, state_of, virtual_addresses_visible
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostJob
from panel.hosts.watching import host_look
from panel.remote import pool
from tests.suites.benchmark_suites.suite_runner import administrator, ssh_host
from tests.support.keepalived_pair import Poll, WebHost, asked, keepalived_hosts
from tests.support.waiting import eventually

CHECK = "http://www.example.com/"


class Pair:
    """Two hosts, as the panel knows them, and a virtual address of both."""

    def __init__(self, admin: User, machines: list[WebHost]) -> None:
        self.admin, self.machines = admin, machines
        self.rows = [ssh_host(machine.machine.sshd, machine.name) for machine in machines]
        self.prefix = machines[0].machine.switch.prefix
        self.ip = f"{self.prefix}.200"
        values = {"name": "www", "address": f"{self.ip}/24", "check_url": CHECK}
        self.row = services.virtual_address_create(actor=admin, hosts=[(row, "") for row in self.rows], values=values)

    def reloaded(self) -> VirtualAddress:
        self.row = virtual_addresses_visible(self.admin).get()
        return self.row

    def applied(self, *, replace: bool = False) -> HostJob:
        return self._done(services.virtual_address_apply(actor=self.admin, row=self.reloaded(), replace=replace))

    def withdrawn(self) -> HostJob:
        return self._done(services.virtual_address_withdraw(actor=self.admin, row=self.reloaded()))

    def _done(self, job: HostJob) -> HostJob:
        host_job_execute(job.uuid)
        job.refresh_from_db()
        self.reloaded()
        return job

    def holders(self) -> list[str]:
        return [machine.name for machine in self.machines if machine.has(self.ip)]

    def looked(self) -> str:
        """The state of the address in words, once the panel looked at both hosts."""
        for row in self.rows:
            host_look(row.pk)
        verdict = state_of(self.reloaded())
        return f"{verdict.label}. {verdict.detail}"


@pytest.fixture
def pair(transactional_db: None, server_root: Path) -> Iterator[Pair]:
    with keepalived_hosts(server_root, "web-1", "web-2") as machines:
        yield Pair(administrator(), machines)
        pool.close()


def test_the_first_host_has_the_address_once_it_is_applied(pair: Pair) -> None:
    assert state_of(pair.row).label == "Not applied"
    job = pair.applied()
    assert (job.status, job.error) == (JobStatus.SUCCEEDED, "")
    assert job.result == {"hosts": ["web-1", "web-2"], "on": "web-1"}
    assert pair.holders() == ["web-1"] and asked(pair.ip) == "web-1"
    assert (
        pair.looked()
        == "In use. The host web-1 has the address. These hosts are ready to take the address over: web-2."
    )


def test_a_killed_web_server_loses_at_most_three_seconds(pair: Pair) -> None:
    assert pair.applied().error == ""
    with Poll(pair.ip) as poll:
        time.sleep(1)
        pair.machines[0].kill_nginx()
        assert eventually(lambda: poll.rows[-1][1] == "web-2")
        time.sleep(1)
    assert poll.longest_gap_s() <= 3.0
    assert pair.looked() == (
        "Without standby. The host web-2 has the address. "
        "These hosts could not take the address over at present: web-1."
    )
    pair.machines[0].start_nginx()
    assert eventually(
        lambda: (
            pair.looked()
            == "In use. The host web-2 has the address. These hosts are ready to take the address over: web-1."
        )
    )


def test_killed_keepalived_moves_the_address(pair: Pair) -> None:
    assert pair.applied().error == ""
    with Poll(pair.ip) as poll:
        time.sleep(1)
        pair.machines[0].kill_keepalived()
        assert eventually(lambda: poll.rows[-1][1] == "web-2")
        time.sleep(1)
    assert poll.longest_gap_s() <= 3.0
    expected = (
        "Without standby. The host web-2 has the address. "
        "These hosts could not take the address over at present: web-1."
    )
    assert eventually(lambda: pair.looked() == expected)


def test_crashed_host_loses_the_address_and_gets_it_back_if_it_returns(pair: Pair) -> None:
    values = {"returns": True}
    services.virtual_address_change(actor=pair.admin, row=pair.reloaded(), values=values)
    assert pair.applied().error == ""
    with Poll(pair.ip) as poll:
        time.sleep(1)
        pair.machines[0].unplug()
        assert eventually(lambda: poll.rows[-1][1] == "web-2")
        pair.machines[0].plug_in()
        assert eventually(lambda: poll.rows[-1][1] == "web-1")
    assert poll.longest_gap_s() <= 3.0


def test_peers_that_disagree_are_shown_and_one_action_makes_them_agree(pair: Pair) -> None:
    assert pair.applied().error == ""
    file = pair.machines[1].configuration / "paddock.conf"
    file.write_text(file.read_text().replace("virtual_router_id 1", "virtual_router_id 9"))
    pair.machines[1].reload_keepalived()
    assert eventually(lambda: pair.holders() == ["web-1", "web-2"])
    assert pair.looked() == "On several hosts. web-1, web-2 have the address at the same time."
    alert = virtual_address_alerts(pair.admin, 6)[0]
    assert (alert.title, alert.status) == ("www", "failed")
    refused = pair.applied()
    assert refused.status == JobStatus.FAILED
    assert "web-2: /etc/keepalived/paddock.conf was edited on the host" in refused.error
    assert "virtual_router_id 9" in file.read_text()
    assert pair.applied(replace=True).status == JobStatus.SUCCEEDED
    assert len(pair.holders()) == 1 and "virtual_router_id 1\n" in file.read_text()
    assert virtual_address_alerts(pair.admin, 6) == []


def test_withdrawn_address_leaves_no_host_with_it_and_no_file(pair: Pair) -> None:
    assert pair.applied().error == ""
    assert pair.withdrawn().status == JobStatus.SUCCEEDED
    assert pair.holders() == []
    assert [list(machine.configuration.iterdir()) for machine in pair.machines] == [[], []]
    assert state_of(pair.row).label == "Not applied"
    services.virtual_address_delete(actor=pair.admin, row=pair.row)
    assert not VirtualAddress.objects.exists()


def test_main_file_of_the_host_stays_and_must_include_the_file_of_paddock(pair: Pair) -> None:
    main = pair.machines[1].configuration / "keepalived.conf"
    main.write_text("global_defs {\n    script_user nobody\n}\n")
    refused = pair.applied()
    assert refused.status == JobStatus.FAILED and "web-2" in refused.error
    assert "Add this line to the file: include /etc/keepalived/paddock.conf" in refused.error
    assert pair.holders() == [] and list(pair.machines[0].configuration.iterdir()) == []
    own = main.read_text() + "include /etc/keepalived/paddock.conf\n"
    main.write_text(own)
    assert pair.applied().error == ""
    assert pair.withdrawn().status == JobStatus.SUCCEEDED
    assert main.read_text() == own and pair.machines[1].keepalived_runs()


def test_refused_file_leaves_both_hosts_as_they_were(pair: Pair) -> None:
    assert pair.applied().error == ""
    before = [(machine.configuration / "paddock.conf").read_text() for machine in pair.machines]
    main = pair.machines[1].configuration / "keepalived.conf"
    main.write_text("no_such_keyword\ninclude /etc/keepalived/paddock.conf\n")
    services.virtual_address_change(actor=pair.admin, row=pair.reloaded(), values={"returns": True})
    refused = pair.applied()
    assert refused.status == JobStatus.FAILED
    assert "web-2: keepalived rejects the configuration" in refused.error and "no_such_keyword" in refused.error
    assert [(machine.configuration / "paddock.conf").read_text() for machine in pair.machines] == before
    assert pair.holders() == ["web-1"] and is_changed(pair.row)


def stop_nginx_after_the_check(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    original = execution._require_passing_check

    def and_stop_nginx(*rest: Any) -> None:
        original(*rest)
        for machine in pair.machines:
            machine.kill_nginx()

    monkeypatch.setattr(execution, "_require_passing_check", and_stop_nginx)


def test_address_that_no_host_takes_is_taken_back(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "SETTLE_S", 4.0)
    monkeypatch.setattr(execution, "FIRST_S", 0.0)
    stop_nginx_after_the_check(pair, monkeypatch)
    refused = pair.applied()
    assert refused.status == JobStatus.FAILED
    assert f"No host took {pair.ip} within 4 seconds" in refused.error
    assert "Paddock restored the former configuration on web-1, web-2." in refused.error
    assert [list(machine.configuration.iterdir()) for machine in pair.machines] == [[], []]
    assert not any(machine.keepalived_runs() for machine in pair.machines)


def test_missing_parts_are_all_named_before_anything_is_changed(pair: Pair) -> None:
    pair.machines[0].inside("ip", "address", "add", f"{pair.prefix}.201/24", "dev", "eth0")
    taken = f"{pair.prefix}.201/24"
    hosts = [(pair.rows[1], ""), (pair.rows[0], f"{pair.prefix}.77")]
    values = {"address": taken, "check_url": "http://www.example.com/broken"}
    services.virtual_address_change(actor=pair.admin, row=pair.reloaded(), values=values, hosts=hosts)
    refused = pair.applied()
    assert refused.status == JobStatus.FAILED
    assert f"web-1: No network interface of the host has the address {pair.prefix}.77." in refused.error
    assert (
        f"web-2: Another device in the network already has the address {pair.prefix}.201 "
        f"(hardware address 02:70:64:74:00:02)." in refused.error
    )
    assert "fails on every host. web-2: status 503; web-1: status 503" in refused.error
    assert KeepalivedHost.objects.filter(text="").count() == 2


def test_address_that_a_host_was_given_by_hand_is_not_taken_from_it(pair: Pair) -> None:
    """A host of the virtual address itself has it already, but keepalived does not run there."""
    pair.machines[1].inside("ip", "address", "add", f"{pair.ip}/24", "dev", "eth0")
    refused = pair.applied()
    assert refused.status == JobStatus.FAILED
    assert f"already has the address {pair.ip}" in refused.error


class Killed(BaseException):
    """The end of a worker between two hosts."""


def kill_before_second_host(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply the address, and end the worker before the second host has its file."""
    sent = execution._sent

    def dying(host: Host, action: str, text: str, expected: list[str] | None) -> None:
        if action == "put" and host == pair.rows[1]:
            raise Killed
        sent(host, action, text, expected)

    with monkeypatch.context() as first:
        first.setattr(execution, "_sent", dying)
        with pytest.raises(Killed):
            pair.applied()


def test_change_goes_on_after_its_worker_was_killed_between_the_hosts(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_before_second_host(pair, monkeypatch)
    assert pair.holders() == ["web-1"] and not pair.reloaded().applied
    HostJob.objects.update(status=JobStatus.QUEUED)  # what the sweep does with jobs of dead workers
    job = HostJob.objects.get()
    host_job_execute(job.uuid)
    job.refresh_from_db()
    assert (job.status, job.error) == (JobStatus.SUCCEEDED, "")
    assert pair.holders() == ["web-1"] and not is_changed(pair.reloaded())


def test_lost_host_is_replaced_and_cleaned_once_it_responds(pair: Pair) -> None:
    assert pair.applied().error == ""
    pair.machines[0].unplug()
    pool.close()
    assert eventually(lambda: asked(pair.ip) == "web-2")
    spare = Host.objects.create(name="spare", address=f"{pair.prefix}.99", username="root", status="ready")
    hosts = [(pair.rows[1], ""), (spare, "")]
    services.virtual_address_change(actor=pair.admin, row=pair.reloaded(), values={}, hosts=hosts)
    refused = pair.applied()
    assert refused.status == JobStatus.FAILED and refused.error.splitlines()[1].startswith("spare: ")
    assert pair.withdrawn().result == {"hosts": ["web-2"], "on": "", "without_response": ["web-1"]}
    assert asked(pair.ip) == "" and state_of(pair.row).label == "Left on a host"
    assert [alert.detail for alert in virtual_address_alerts(pair.admin, 6)] == [state_of(pair.row).detail]
    pair.machines[0].plug_in()
    assert eventually(lambda: asked(pair.ip) == "web-1")  # it has the file still
    assert pair.withdrawn().result == {"hosts": ["web-1"], "on": ""}
    assert pair.holders() == [] and state_of(pair.row).label == "Not applied"


def test_keepalived_with_a_file_of_its_own_elsewhere_is_left_alone(pair: Pair) -> None:
    own = pair.machines[1].root / "own.conf"
    own.write_text("global_defs {\n    router_id own\n}\n")
    pair.machines[1].inside("keepalived", "--use-file", str(own))
    assert eventually(pair.machines[1].keepalived_runs)
    refused = pair.applied()
    assert refused.status == JobStatus.FAILED
    assert (
        "web-2: keepalived runs with another configuration file than /etc/keepalived/keepalived.conf." in refused.error
    )
    assert pair.holders() == [] and pair.machines[1].keepalived_runs()
    assert [list(machine.configuration.iterdir()) for machine in pair.machines] == [[], []]


def test_second_attempt_after_a_killed_worker_takes_a_new_address_back(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_before_second_host(pair, monkeypatch)
    monkeypatch.setattr(execution, "SETTLE_S", 4.0)
    monkeypatch.setattr(execution, "FIRST_S", 0.0)
    stop_nginx_after_the_check(pair, monkeypatch)
    HostJob.objects.update(status=JobStatus.QUEUED)
    job = HostJob.objects.get()
    host_job_execute(job.uuid)
    job.refresh_from_db()
    assert job.status == JobStatus.FAILED and f"No host took {pair.ip}" in job.error
    assert [list(machine.configuration.iterdir()) for machine in pair.machines] == [[], []]
    assert not KeepalivedHost.objects.exclude(text="").exists()
