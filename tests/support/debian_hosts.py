"""Hosts as a new administrator has them: copies of this Debian's file system that boot with systemd, each with an
address of its own on a switch. Files that are written there outlive a reboot and are gone at the end.

Needs root, iproute2, systemd-nspawn, and on this machine the packages of the services that a host runs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.booted_debian import BootedDebian
from tests.support.isolated import OVERLAY
from tests.support.namespace_hosts import Switch, ip
from tests.support.process import tool
from tests.support.waiting import eventually

# The mount lives until this process ends.
MOUNT = f"""{OVERLAY}
touch "$1/ready"
exec sleep infinity
"""
# Leaves a machine as its packages do: no users' keys, no enabled services besides its own, new host keys.
CLEAN = """
set -e
rm -rf /etc/systemd/system/*.wants /var/www/[!h]* /srv/* /etc/ssh/ssh_host_* /root/.ssh
rm -rf /etc/sudoers.d/paddock* /var/lib/paddock*
rm -f /etc/fstab /etc/machine-id /etc/resolv.conf && touch /etc/machine-id /etc/fstab
echo "$1" > /etc/hostname && printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n' "$1" > /etc/hosts
printf '%s\\n' '[Unit]' 'Before=network.target ssh.service' 'DefaultDependencies=no' \
    '[Service]' 'Type=oneshot' 'RemainAfterExit=yes' 'ExecStart=/sbin/ip link set lo up' \
    'ExecStart=/sbin/ip link set host0 up' "ExecStart=/sbin/ip address add $2/24 dev host0" \
    'ExecStart=/usr/bin/ssh-keygen -A' \
    > /etc/systemd/system/address.service
wants=/etc/systemd/system/multi-user.target.wants
mkdir -p "$wants" && ln -s /etc/systemd/system/address.service "$wants"
shift 2
for server in nginx apache2; do
    case " $* " in *" $server "*) ;; *) rm -rf "/etc/$server" "/usr/sbin/$server" ;; esac
done
for service; do ln -s "/lib/systemd/system/$service.service" "$wants"; done
"""


class DebianHost(BootedDebian):
    """A machine called `name` that runs sshd and the given services of its packages, and nothing else."""

    def __init__(self, folder: Path, switch: Switch, name: str, services: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        number = next(switch.numbers)
        self.name, self.switch, self.address = name, switch, f"{switch.prefix}.{number}"
        self.machine = f"{switch.name}n{number}"
        self._folder, self._services = folder, ("ssh", *services)
        argv = [tool("unshare"), "--mount", "--propagation", "private", "sh", "-c", MOUNT, "sh", str(folder)]
        self._mount = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        self._in_mount = [tool("nsenter"), "--target", str(self._mount.pid), "--mount", "--"]
        options = ["--machine", self.machine, f"--network-bridge={switch.name}", "--link-journal=no",
                   "--resolv-conf=off", "--timezone=off"]  # fmt: skip
        super().__init__(folder / "root", options, before=self._in_mount, console=folder.parent / f"{name}.console")

    def __enter__(self) -> Self:
        try:
            assert eventually(lambda: self._mounted("test", "-e", f"{self._folder}/ready").returncode == 0)
            done = self._mounted("chroot", f"{self._folder}/root", "sh", "-c", CLEAN, "sh", self.name, self.address,
                                 *self._services)  # fmt: skip
            assert done.returncode == 0, done.stdout
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self._mount.kill()
        self._mount.wait()

    def _mounted(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this machine that sees the copy."""
        return subprocess.run([*self._in_mount, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)  # fmt: skip

    def plug(self, is_plugged: bool) -> None:
        """Cut the machine's network cable, or plug it in again."""
        ip("link", "set", f"vb-{self.machine}", "up" if is_plugged else "down")
