"""Hosts as a new administrator has them: copies of this Debian's file system that boot with systemd, each with an
address of its own on a switch. Files that are written there outlive a reboot and are gone at the end.

Needs root, iproute2, systemd-nspawn, and on this machine the packages of the services that a host runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.namespace_hosts import Switch, ip
from tests.support.process import tool
from tests.support.waiting import eventually

BOOT_S = 60.0
SERVICES = Path("/lib/systemd/system")
# Mounts the copy at "$1"/root and stays, so that the copy lives until this process ends.
MOUNT = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
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


class DebianHost:
    """A machine called `name` that runs sshd and the given services of its packages, and nothing else."""

    def __init__(self, folder: Path, switch: Switch, name: str, services: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        number = next(switch.numbers)
        self.name, self.switch, self.address = name, switch, f"{switch.prefix}.{number}"
        self.machine = f"{switch.name}n{number}"
        self._folder, self._services = folder, ("ssh", *services)
        self._container: subprocess.Popen[bytes] | None = None
        argv = [tool("unshare"), "--mount", "--propagation", "private", "sh", "-c", MOUNT, "sh", str(folder)]
        self._mount = subprocess.Popen(argv, stdin=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        try:
            assert eventually(lambda: self._in_mount("test", "-e", f"{self._folder}/ready").returncode == 0)
            done = self._in_mount("chroot", f"{self._folder}/root", "sh", "-c", CLEAN, "sh", self.name, self.address,
                                  *self._services)  # fmt: skip
            assert done.returncode == 0, done.stdout
            self.power_on()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._container is not None:
            self.power_off()
        self._mount.kill()
        self._mount.wait()

    def _in_mount(self, *argv: str) -> subprocess.CompletedProcess[str]:
        inside = [tool("nsenter"), "--target", str(self._mount.pid), "--mount", "--"]
        return subprocess.run([*inside, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)  # fmt: skip

    def power_on(self) -> None:
        """Boot, and wait until systemd has started every unit."""
        argv = [tool("nsenter"), "--target", str(self._mount.pid), "--mount", "--",
                tool("systemd-nspawn"), "--quiet", "--directory", f"{self._folder}/root", "--boot",
                "--machine", self.machine, f"--network-bridge={self.switch.name}", "--register=no", "--keep-unit",
                "--console=read-only", "--link-journal=no", "--resolv-conf=off", "--timezone=off"]  # fmt: skip
        with (self._folder.parent / f"{self.name}.console").open("ab") as console:
            self._container = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        assert eventually(self._has_booted, timeout_s=BOOT_S), f"{self.name} did not boot"

    def _has_booted(self) -> bool:
        assert self._container is not None and self._container.poll() is None, f"{self.name} ended while it booted"
        if not self._children():
            return False
        return self.start("systemctl", "is-system-running").communicate()[0].strip() in ("running", "degraded")

    def power_off(self) -> None:
        """End every process at once, as a power failure does."""
        assert self._container is not None
        for child in self._children():
            os.kill(int(child), signal.SIGKILL)
        self._container.wait(timeout=30)
        self._container = None

    def plug(self, is_plugged: bool) -> None:
        """Cut the machine's network cable, or plug it in again."""
        ip("link", "set", f"vb-{self.machine}", "up" if is_plugged else "down")

    def _children(self) -> list[str]:
        assert self._container is not None
        pid = self._container.pid
        try:
            return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except FileNotFoundError:
            return []

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """A process inside; its output, errors included, can be read from `stdout`."""
        namespaces = ("--mount", "--uts", "--ipc", "--pid", "--net", "--cgroup")
        return subprocess.Popen(
            [tool("nsenter"), "--target", self._children()[0], *namespaces, "env", "-i", "HOME=/root", "LC_ALL=C.UTF-8",
             "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *argv],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def shell(self, command: str, *, code: int = 0) -> str:
        """What root's shell prints for a line. AssertionError when it ends with another code."""
        process = self.start("sh", "-c", command)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == code, f"{command} ended with {process.returncode}:\n{said}"
        return said
