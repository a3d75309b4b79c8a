"""Machines of their own for tests, as far as a kernel can be shared: each has its processes, its network with an
address, its mounts and its boot id, and an sshd to be reached by. Needs root and iproute2.

They share this machine's files, and so what lies in a temporary folder outlives a restart, as it does on a disk.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from tests.support.process import tool
from tests.support.sshd import SshServer
from tests.support.waiting import eventually

# What the first process does before it becomes sshd: waits for its network, then shows its own boot id.
START = """
until read line; do :; done < "$1"
mount --bind "$2" /proc/sys/kernel/random/boot_id && mount -t sysfs sysfs /sys && exec "${@:3}"
"""


class Switch:
    """A switch that machines are plugged into; the panel, which is this machine, is at `.1`."""

    def __init__(self) -> None:
        # Tests run beside each other, each in a process of its own.
        self.name = f"pdt{os.getpid() % 100000}"
        self.prefix = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 256}"
        self.numbers = itertools.count(2)

    def __enter__(self) -> Self:
        ip("link", "add", self.name, "type", "bridge")
        ip("address", "add", f"{self.prefix}.1/24", "dev", self.name)
        ip("link", "set", self.name, "up")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        ip("link", "delete", self.name)


class Machine:
    """`sshd` is how it is reached, `environment` what sessions there find set."""

    def __init__(self, root: Path, switch: Switch, **environment: str) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.switch, number = switch, next(switch.numbers)
        self.address, self.port = f"{switch.prefix}.{number}", f"{switch.name}v{number}"
        self._boot_id, self._plugged = root / "boot_id", root / "plugged"
        spaces = ["--pid", "--mount", "--net", "--ipc", "--fork", "--kill-child=KILL", "--mount-proc"]
        start = [tool("bash"), "-c", START, "machine", str(self._plugged), str(self._boot_id)]
        # After a restart the same: who knew the machine's network card does not have to ask for it.
        self._hardware = f"02:70:64:74:00:{number:02x}"
        self.boot_id = ""
        self.sshd = SshServer(root / "sshd", self.address, [tool("unshare"), *spaces, "--", *start])
        self.sshd.environment.update(environment)

    @property
    def first_process(self) -> int:
        """As this machine numbers it; 0 before it is there."""
        process = self.sshd.process.process
        assert process is not None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def boot(self) -> Self:
        """Starts it, anew or for the first time."""
        self.boot_id = f"{uuid4()}"
        self._boot_id.write_text(f"{self.boot_id}\n")
        self._plugged.unlink(missing_ok=True)
        os.mkfifo(self._plugged)
        self.sshd.start_only()
        assert eventually(lambda: self.first_process)
        inside = [tool("nsenter"), "--target", f"{self.first_process}", "--net", "--", tool("ip")]
        card = ["name", "eth0", "address", self._hardware, "netns", f"{self.first_process}"]
        ip("link", "add", self.port, "type", "veth", "peer", *card)
        ip("link", "set", self.port, "master", self.switch.name, "up")
        for words in (f"address add {self.address}/24 dev eth0", "link set eth0 up", "link set lo up"):
            subprocess.run([*inside, *words.split()], check=True)
        self._plugged.write_text("now\n")
        self.sshd.wait()
        return self

    def crash(self) -> None:
        """As when its power fails: the network hears nothing any more, not even an end, and all in it is gone."""
        ip("link", "delete", self.port)
        os.kill(self.first_process, signal.SIGKILL)
        self.sshd.stop()

    def interfaces(self) -> set[str]:
        """Those of its own network, not of namespaces within it."""
        lines = Path(f"/proc/{self.first_process}/net/dev").read_text().splitlines()[2:]
        return {line.split(":")[0].strip() for line in lines}

    def __enter__(self) -> Self:
        return self.boot()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        process = self.sshd.process.process
        if process is not None and process.poll() is None:
            self.crash()


def ip(*arguments: str) -> None:
    subprocess.run([tool("ip"), *arguments], check=True)
