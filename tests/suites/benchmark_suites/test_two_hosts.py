"""Suites between two hosts: load on one, servers on the other, each with its own network."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from agents.host import peers
from agents.host.errors import Refusal
from panel.accounts.models import User
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import Run, RunStatus, SuiteRun
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.choosing import Choice
from panel.benchmarks.suites.definitions import Network
from panel.benchmarks.suites.services import suite_start
from panel.core.errors import ApplicationError
from panel.hosts.models import Host, HostStatus, WebServer
from panel.hosts.targets import target_for
from panel.remote import links, pool, ssh
from panel.remote.errors import OperationRefused
from tests.api.caller import caller_of, pointers
from tests.suites.benchmark_suites import __main__ as command
from tests.suites.benchmark_suites import locations
from tests.suites.benchmark_suites.suite_runner import add_web_servers, carried_out, facts, ssh_host
from tests.suites.benchmark_suites.test_faults import below
from tests.support.namespace_hosts import Machine, Switch
from tests.support.waiting import eventually

SLUG = "small-static-files"


@dataclass(frozen=True)
class Two:
    """`load` and `servers` as the panel knows them, where their test beds and runs lie, and the machines."""

    load: Host
    servers: Host
    folders: list[Path]
    machines: list[Machine]


@pytest.fixture
def two(db: None, server_root: Path, settings: LazySettings) -> Iterator[Two]:
    settings.LOCAL_HOST_ROOT = server_root / "host"
    names = ("load", "servers")
    folders = [server_root / f"temporary-{name}" for name in names]
    for folder in folders:
        folder.mkdir(mode=0o755)
    with Switch() as switch:
        first = Machine(server_root / "load", switch, TMPDIR=str(folders[0]))
        second = Machine(server_root / "servers", switch, TMPDIR=str(folders[1]))
        with first, second:
            load, servers = (ssh_host(machine.sshd, name) for machine, name in zip((first, second), names, strict=True))
            add_web_servers(servers)
            yield Two(load, servers, folders, [first, second])
            pool.close()
            for folder, machine in zip(folders, (first, second), strict=True):
                assert eventually(lambda folder=folder: not below(folder), timeout_s=60), below(folder)
                assert not [path.name for path in folder.iterdir() if "paddock-" in path.name]
                assert machine.interfaces() == {"lo", "eth0"}


def shortened(monkeypatch: pytest.MonkeyPatch, slug: str, network: Network, **changed: Any) -> None:
    suite = SUITES[slug]
    case = replace(suite.short[0], **{"rounds": 1, "warmup_s": 0, "idle_s": 0.2, "network": network, **changed})
    monkeypatch.setitem(SUITES, slug, replace(suite, short=(case,)))


def carried(operator: User, two: Two, slug: str, *setups: str) -> tuple[SuiteRun, Run]:
    choice = Choice(load_from=two.load.name)
    row = suite_start(actor=operator, suite=slug, preset="short", host=two.servers, setups=setups, choice=choice)
    (run,) = carried_out(row)
    return row, run


@pytest.mark.django_db(transaction=True)
def test_load_comes_over_link_from_other_host(operator: User, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(50, 10)
    shortened(monkeypatch, SLUG, network, arguments={"concurrency": 2, "duration_s": 1})
    row, run = carried(operator, two, SLUG, "nginx")
    assert run.error == ""
    assert row.title.endswith("load from load on servers")
    assert set(run.fingerprint["hosts"]) == {"load", "servers"}
    assert run.fingerprint["load_from"] == "load"
    assert run.fingerprint["network"]["measured"]["whole_rtt_us"]["min"] >= 10_000
    (counted,) = run.targets.get().rounds.all()
    # Two connections with one request on the way each, which takes a round trip at the very least.
    assert 0 < counted.metrics["throughput_rps"] <= 2 / 0.010
    assert {"server", "tool"} <= set(counted.metrics["cpu_s"]), "what the servers cost is watched on their host"
    assert counted.samples["server"]
    shown = caller_of(operator).get(f"suites/{row.uuid}/").json()  # type: ignore[attr-defined]
    assert (shown["host"], shown["load_from"]) == ("servers", "load")


@pytest.mark.django_db(transaction=True)
def test_quic_load_uses_same_link_as_tcp(operator: User, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {**SUITES["http3-2019"].short[0].arguments, "protocol": "h3", "requests": 50}
    shortened(monkeypatch, "http3-2019", Network(50, 10), arguments=arguments, tool=Tool.H2LOAD)
    _, run = carried(operator, two, "http3-2019", "gallop")
    assert run.error == ""
    (counted,) = run.targets.get().rounds.all()
    assert (counted.error, counted.metrics["requests"], counted.metrics["failed"]) == ("", 50, 0)


@pytest.mark.django_db(transaction=True)
def test_wordpress_is_browsed_from_other_host(operator: User, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database runs with the servers; the fixture checks that both leave nothing."""
    suite = SUITES["php-application-2020"]
    (case,) = (item for item in suite.short if item.slug == "app-php-only")
    # Few at once: on a busy machine a page of WordPress takes a second.
    case = replace(case, rounds=1, network=Network(50, 10), arguments={**case.arguments, "concurrency": 2})
    applications = tuple(replace(item, short_warmup_s=0, short_duration_s=3) for item in suite.applications)
    monkeypatch.setitem(SUITES, suite.slug, replace(suite, short=(case,), applications=applications))
    Host.objects.filter(pk=two.servers.pk).update(facts=facts())
    two.servers.refresh_from_db()
    choice = Choice(load_from=two.load.name, application="wordpress", paths=("/", "/?p=101"))
    row = suite_start(
        actor=operator,
        suite=suite.slug,
        preset="short",
        host=two.servers,
        setups=["gallop-fpm"],
        choice=choice,
    )
    (run,) = carried_out(row)
    assert run.error == ""
    counted = run.targets.get().rounds.get(number=1)
    assert (counted.error, counted.metrics["failed"], counted.metrics["non2xx"]) == ("", 0, 0), counted.output
    assert counted.metrics["bytes"] > 10_000 and counted.metrics["cpu_s"]["application"] > 0
    assert {"server", "application", "tool"} <= set(counted.metrics["cpu_s"])


def forget() -> None:
    """As on a panel that knows no host yet."""
    WebServer.objects.all().delete()
    Host.objects.all().delete()


@pytest.mark.django_db(transaction=True)
def test_command_line_hosts_are_checked_by_host_key(two: Two, server_root: Path) -> None:
    """`python -m tests.suites.benchmark_suites --on ... --load-from ...`."""
    forget()
    servers, load = (machine.sshd for machine in reversed(two.machines))
    keys = locations.Keys(server_root / "identity", server_root / "known_hosts")
    # One key opens both.
    keys.identity.write_text(servers.private_key)
    (load.root / "authorized_keys").write_text((servers.root / "authorized_keys").read_text())
    keys.known_hosts.write_text(f"[{servers.address}]:{servers.port} {servers.host_key}\n")
    named = [locations.Address.of(f"{sshd.username}@{sshd.address}:{sshd.port}") for sshd in (servers, load)]
    unknown = pytest.raises(ApplicationError, match=r"is not in .*known_hosts. Log in there once with ssh")
    with unknown, locations.between_hosts(named[0], named[1], keys):
        pass
    forget()
    with keys.known_hosts.open("a") as file:
        file.write(f"[{load.address}]:{load.port} {load.host_key}\n")
    with locations.between_hosts(named[0], named[1], keys) as where:
        assert (where.servers.host_key, where.load) == (servers.host_key, "load")
        assert where.servers.status == HostStatus.READY and where.servers.facts["uid"] == os.geteuid()
        assert where.servers.web_servers.filter(engine="nginx").exists(), "found as a check finds it"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--load-from root@192.0.2.7", "a load from another host needs --on"),
        ("--on 192.0.2.8 --load-from namespaces", "makes both here"),
        ("--on 192.0.2.8 --program nginx=/usr/sbin/nginx", "those that the host has"),
        ("http2-2019", "there is no suite http2-2019"),
    ],
)
def test_contradicting_command_line_is_rejected(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        command.main(words.split())
    assert refused.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("root@192.0.2.8", ("192.0.2.8", "root", 22)),
        ("ann@a.example:2222", ("a.example", "ann", 2222)),
        ("ann@[2001:db8::1]:2222", ("2001:db8::1", "ann", 2222)),
        ("ann@2001:db8::1", ("2001:db8::1", "ann", 22)),
    ],
)
def test_host_address_uses_ssh_notation(text: str, address: tuple[str, str, int]) -> None:
    assert locations.Address.of(text) == locations.Address(*address)
    with pytest.raises(ApplicationError, match="is not"):
        locations.Address.of(f"{text}:no-port]" if "[" in text else "ann@")


@pytest.mark.django_db(transaction=True)
def test_run_reports_restart_of_load_host(operator: User, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    shortened(monkeypatch, SLUG, Network(50, 2), arguments={"concurrency": 2, "duration_s": 4})
    monkeypatch.setattr(ssh, "KEEPALIVE_S", 1)
    monkeypatch.setattr(links, "IDLE_S", 0.5)

    def fail() -> None:
        assert eventually(lambda: "ab" in below(two.folders[0]).values())
        two.machines[0].crash()
        time.sleep(1.0)
        two.machines[0].boot()

    failing = threading.Thread(target=fail)
    failing.start()
    _, run = carried(operator, two, SLUG, "nginx")
    failing.join()
    assert run.status == RunStatus.FAILED
    assert run.error.startswith("load restarted during the run")
    assert "The run left nothing on load. The run left nothing on servers." in run.error


@pytest.mark.django_db(transaction=True)
def test_load_targets_testbed_of_its_own_run_only(two: Two) -> None:
    """The agent enforces this by itself, whatever the panel requests."""
    common = {"vni": 7, "port": 32_000}
    word, other = "0" * 32, "1" * 32
    addresses = [machine.address for machine in two.machines]
    listener = f"{peers.SERVERS}:8080"
    testbed = {"id": "testbed-of-a-test", "files": [], "servers": [], "listeners": [listener]}
    up = threading.Event()

    def hold() -> None:
        with pool.session(target_for(two.servers)) as agent:
            peer = {**common, "role": "servers", "address": addresses[0], "word": word}
            agent.call("testbed", {**testbed, "peer": peer, "action": "start"}, on_event=lambda _: up.set())

    holding = threading.Thread(target=hold)
    holding.start()
    assert up.wait(30)
    with pool.session(target_for(two.load)) as agent:
        peer = {**common, "role": "load", "address": addresses[1], "word": other}
        with pytest.raises(OperationRefused, match="does not run the test bed for this load"):
            agent.call("testbed", {**testbed, "network": {}, "peer": peer, "action": "start"})
        for elsewhere in ("192.0.2.1:80", f"{addresses[1]}:22", "10.77.0.2:80"):
            asked = {**testbed, "listeners": [elsewhere], "network": {}, "peer": {**peer, "word": word}}
            with pytest.raises(
                OperationRefused, match="is not the address of the web servers of the other host's test bed"
            ):
                agent.call("testbed", {**asked, "action": "start"})
    with pool.session(target_for(two.servers)) as agent:
        agent.call("testbed", {"action": "end", "id": "testbed-of-a-test"})
    holding.join()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"role": "both"}, "is the load or the servers"),
        ({"word": "please"}, "a word of 32 hex digits"),
        ({"address": "a.example"}, "which is none"),
        ({"vni": 1 << 24}, "from 1 to 16777215"),
        ({"port": True}, "from 1024 to 65535"),
    ],
)
def test_invalid_peer_is_rejected(wrong: dict[str, Any], words: str) -> None:
    right = {"role": "load", "word": "0" * 32, "address": "192.0.2.1", "vni": 1, "port": 32_000}
    assert peers.Peer(right).vni == 1
    with pytest.raises(Refusal, match=words):
        peers.Peer({**right, **wrong})


@pytest.mark.django_db
def test_load_host_must_be_another_managed_host(operator: User, host: Host) -> None:
    reached = Host.objects.create(name="far", address="192.0.2.1", status="ready", layout="conf_d")
    Host.objects.create(name="new", address="192.0.2.2", layout="conf_d")
    program = caller_of(operator)
    body = {"suite": SLUG, "preset": "short", "host": reached.name}
    for name, words in (
        ("nobody", "The host “nobody” for the load generator does not exist"),
        ("192.0.2.9", "The host “192.0.2.9” for the load generator does not exist"),
        (reached.name, "Choose another host"),
        (host.name, "has no address for other hosts"),
        ("new", "Check the host first"),
    ):
        refused = program.post("suites/", {**body, "load_from": name})
        assert refused.status_code == 422 and pointers(refused) == ["/load_from"], refused.content
        assert words in refused.content.decode()
    with pytest.raises(ApplicationError, match="does not exist"):
        suite_start(actor=operator, suite=SLUG, preset="short", host=reached, choice=Choice(load_from="nobody"))
    assert not SuiteRun.objects.exists()
