"""A virtual address of two Debian hosts that booted with systemd: their own units run keepalived and nginx."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from panel.core.jobs import JobStatus
from panel.failover import services
from panel.failover.selectors import state_of, virtual_addresses_visible
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Host, HostStatus, Layout
from panel.hosts.watching import host_look
from panel.remote import pool
from tests.suites.benchmark_suites.suite_runner import administrator
from tests.support.debian_hosts import DebianHost
from tests.support.keepalived_pair import Poll, asked
from tests.support.namespace_hosts import Switch
from tests.support.sshd import make_key
from tests.support.waiting import eventually

PREPARE = """
set -e
rm -f /etc/nginx/sites-enabled/* /etc/nginx/conf.d/*
echo "server {{ listen 80 default_server; location / {{ return 200 '{name}\\n'; }} }}" > /etc/nginx/conf.d/site.conf
systemctl reload nginx
mkdir -p -m 700 /root/.ssh
echo '{key}' > /root/.ssh/authorized_keys
cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub
"""
RETURN_S = 30.0


@pytest.fixture
def hosts() -> Iterator[list[DebianHost]]:
    with ExitStack() as ended, ThreadPoolExecutor(2) as threads:
        folder = Path(ended.enter_context(tempfile.TemporaryDirectory(prefix="pdk-")))
        switch = ended.enter_context(Switch())
        found = [DebianHost(folder / name, switch, name, ["nginx"]) for name in ("web-1", "web-2")]
        for host in threads.map(DebianHost.__enter__, found):
            ended.callback(host.__exit__, None, None, None)
        yield found
        pool.close()


def add(host: DebianHost, folder: Path) -> Host:
    """Let nginx respond with the host's name, and add the host to the panel."""
    make_key(folder / host.name)
    public = (folder / f"{host.name}.pub").read_text().strip()
    host_key = host.shell(PREPARE.format(name=host.name, key=public)).strip()
    values = {"username": "root", "private_key": (folder / host.name).read_text(), "host_key": host_key}
    return Host.objects.create(
        name=host.name, address=host.address, layout=Layout.CONF_D, status=HostStatus.READY, **values
    )


@pytest.mark.one_database("The subject is keepalived below systemd; test_real_hosts.py runs on both databases.")
def test_address_survives_killed_nginx_and_reboot(
    transactional_db: None, hosts: list[DebianHost], tmp_path: Path
) -> None:
    admin, rows = administrator(), [add(host, tmp_path) for host in hosts]
    ip = f"{hosts[0].switch.prefix}.200"
    values = {"name": "www", "address": f"{ip}/24", "check_url": "http://127.0.0.1/", "returns": True}
    row = services.virtual_address_create(actor=admin, hosts=[(each, "") for each in rows], values=values)
    job = services.virtual_address_apply(actor=admin, row=row, replace=False)
    host_job_execute(job.uuid)
    job.refresh_from_db()
    assert (job.status, job.error) == (JobStatus.SUCCEEDED, "")
    assert [
        host.shell("systemctl is-active keepalived; systemctl is-enabled keepalived").split() for host in hosts
    ] == [
        ["active", "enabled"],
        ["active", "enabled"],
    ]
    with Poll(ip) as poll:
        assert eventually(lambda: bool(poll.rows) and poll.rows[-1][1] == "web-1")
        hosts[0].shell("kill -9 $(systemctl show --property MainPID --value nginx)")
        assert eventually(lambda: poll.rows[-1][1] == "web-2")
        hosts[0].power_off()
        hosts[0].power_on()
        assert eventually(lambda: poll.rows[-1][1] == "web-1", timeout_s=RETURN_S)
    assert poll.longest_gap_s() <= 3.0
    for each in rows:
        host_look(each.pk)
    verdict = state_of(virtual_addresses_visible(admin).get())
    assert (verdict.label, verdict.detail) == (
        "In use",
        "The host web-1 has the address. These hosts are ready to take the address over: web-2.",
    )
    assert asked(ip) == "web-1"
