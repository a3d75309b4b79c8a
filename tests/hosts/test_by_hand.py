"""Hosts that reach no panel and that only a bastion reaches, added with one pasted line and a fingerprint."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from panel.accounts.models import User
from panel.hosts.by_hand import fingerprints_in
from panel.hosts.models import Host, HostStatus
from panel.remote import pool
from tests.hosts.test_bastions import added, work_off
from tests.support.bastion import Behind, behind_bastion
from tests.support.cast import signed_in
from tests.support.copied_root import CopiedRoot
from tests.support.waiting import eventually

PORT = 2222
SSHD = (
    f"Port {PORT}",
    "ListenAddress 127.0.0.1",
    "HostKey /etc/ssh/ssh_host_ed25519_key",
    "UsePAM no",
    "Subsystem sftp internal-sftp",
)
OTHER = "256 SHA256:" + "A" * 43 + " root@web-7 (ED25519)"


@pytest.fixture
def behind(transactional_db: None, server_root: Path) -> Iterator[Behind]:
    with behind_bastion(server_root) as found:
        yield found
    pool.close()


@pytest.fixture
def web(behind: Behind, tmp_path: Path) -> Iterator[CopiedRoot]:
    """A machine of its own whose sshd listens in the network of the bastion only."""
    (tmp_path / "none").mkdir()
    network = behind.bastion.first_process
    with CopiedRoot(tmp_path, tmp_path / "none", own_network=False, network=network) as root:
        prepare = "rm -f /etc/ssh/ssh_host_*; ssh-keygen -A; mkdir -p /run/sshd /etc/sudoers.d; hostname web-7"
        shell(root, f"{prepare}; printf '%s\\n' {shlex.join(SSHD)} > /etc/ssh/sshd_config")
        root.start("/usr/sbin/sshd", "-D", "-e")
        assert eventually(lambda: f":{PORT}" in shell(root, "ss -ltnH"))
        yield root


def shell(root: CopiedRoot, command: str) -> str:
    return root.run("sh", "-c", command)


class Pages:
    """The administrator's browser, and the worker that carries out what the pages ask for."""

    def __init__(self, admin: User) -> None:
        self.browser = signed_in(admin)

    def text(self, name: str) -> str:
        return " ".join(unescape(self.browser.get(f"/hosts/{name}/").content.decode()).split())

    def command(self, name: str, ident: str) -> str:
        """A command that the host's page offers to copy."""
        html = self.browser.get(f"/hosts/{name}/").content.decode()
        found = re.search(rf'<code id="{ident}">(.*?)</code>', html, re.DOTALL)
        assert found is not None, html
        return unescape(found[1])

    def post(self, path: str, **values: Any) -> str:
        """Send a form; returns the next page, and runs the jobs that the form queued."""
        response = self.browser.post(path, values)
        assert response.status_code == 302, response.content.decode()
        said = self.browser.get(response.headers["Location"]).content.decode()
        for host in Host.objects.all():
            work_off(host)
        return " ".join(unescape(said).split())

    def add_behind(self, name: str, bastion: str, **values: Any) -> None:
        row = Host.objects.get(name=bastion)
        given = {"address": "127.0.0.1", "layout": "sites", "site_roots": "/srv/www", "bastion": row.pk, **values}
        self.post("/hosts/+new/", name=name, **given)


def test_host_behind_bastion_is_added_with_a_pasted_line_and_its_fingerprint(
    admin: User, behind: Behind, web: CopiedRoot
) -> None:
    added(admin, "edge", behind.bastion.sshd)
    pages = Pages(admin)
    pages.add_behind("web-7", "edge", port=PORT, username="paddock", use_sudo="on")
    assert "Is this the right host?" in pages.text("web-7")
    line = pages.command("web-7", "prepare-command")
    assert "\n" not in line

    said = shell(web, line)
    own = shell(web, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").strip()
    assert own in said and len(fingerprints_in(said)) == 3, "the line prints the fingerprint of each key"
    refused = pages.post("/hosts/web-7/trust/", confirmed=OTHER)
    assert f"web-7 presents {fingerprints_in(own)[0]} (ssh-ed25519), which differs" in refused
    assert Host.objects.get(name="web-7").host_key == ""

    assert "The host key is trusted" in pages.post("/hosts/web-7/trust/", confirmed=said)
    host = Host.objects.get(name="web-7")
    assert (host.status, host.status_detail) == (HostStatus.READY, "")
    assert (host.facts["hostname"], host.facts["uid"]) == ("web-7", 0)
    assert "Allow Paddock to sign in" not in pages.text("web-7")
    modes = shell(web, "stat -c '%a %U' /var/lib/paddock/.ssh/authorized_keys /etc/sudoers.d/paddock").split()
    assert modes == ["600", "paddock", "440", "root"]


def test_line_can_be_pasted_again_and_changes_nothing(admin: User, behind: Behind, web: CopiedRoot) -> None:
    added(admin, "edge", behind.bastion.sshd)
    pages = Pages(admin)
    pages.add_behind("web-7", "edge", port=PORT, username="paddock", use_sudo="on")
    line, files = pages.command("web-7", "prepare-command"), "/var/lib/paddock/.ssh/authorized_keys /etc/sudoers.d/*"
    shell(web, line)
    before = shell(web, f"sha256sum {files}")
    shell(web, line)
    assert shell(web, f"sha256sum {files}") == before


def test_line_for_root_only_adds_the_key(admin: User, behind: Behind, web: CopiedRoot) -> None:
    added(admin, "edge", behind.bastion.sshd)
    pages = Pages(admin)
    pages.add_behind("web-7", "edge", port=PORT, username="root")
    line = pages.command("web-7", "prepare-command")
    assert "useradd" not in line and "sudoers" not in line
    said = shell(web, f"export HOME=/root; {line}")
    pages.post("/hosts/web-7/trust/", confirmed=said)
    assert Host.objects.get(name="web-7").status == HostStatus.READY


def test_line_that_the_host_cannot_carry_out_ends_with_the_reason(admin: User, behind: Behind, web: CopiedRoot) -> None:
    added(admin, "edge", behind.bastion.sshd)
    pages = Pages(admin)
    pages.add_behind("web-7", "edge", port=PORT, username="paddock", use_sudo="on")
    shell(web, "rm -f $(command -v visudo)")
    said = web.run("sh", "-c", pages.command("web-7", "prepare-command"), code=1)
    assert "visudo" in said and fingerprints_in(said) == []
    assert "paddock" not in shell(web, "ls /etc/sudoers.d")


def test_bastion_offers_the_command_that_lets_it_pass_connections_on(admin: User, behind: Behind) -> None:
    edge = added(admin, "edge", behind.bastion.sshd)
    behind.allow_forwarding("restrict")
    pages, sshd = Pages(admin), behind.hosts[0]
    assert "pass connections on" not in pages.text("edge")
    pages.add_behind("web-1", "edge", port=sshd.port, username=sshd.username, private_key=sshd.private_key)
    assert "does not allow Paddock's key to pass connections on" in pages.text("web-1")
    home = behind.bastion.sshd.root / "home"
    (home / ".ssh").mkdir(parents=True)
    keys, real = home / ".ssh" / "authorized_keys", behind.bastion.sshd.root / "authorized_keys"
    keys.write_text(real.read_text())
    for _ in range(2):
        command = pages.command("edge", "forwarding-command")
        subprocess.run(["/bin/sh", "-c", command], check=True, env={**os.environ, "HOME": str(home)})
    assert keys.read_text().startswith("restrict,port-forwarding ssh-ed25519 ")
    real.write_text(keys.read_text())
    pool.close()
    pages.post("/hosts/web-1/ask/check/")
    assert Host.objects.get(name="web-1").offered_host_key == sshd.host_key
    assert edge.name in pages.text("web-1")
