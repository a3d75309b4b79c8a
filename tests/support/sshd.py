"""A real OpenSSH server on loopback that lets in one key, for the account that runs the tests."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.ports import free_port
from tests.support.process import ServerProcess, tool

CONFIG = """\
Port {port}
ListenAddress {address}
HostKey {root}/host_key
PidFile {root}/sshd.pid
AuthorizedKeysFile {root}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PubkeyAuthentication yes
StrictModes no
UsePAM no
MaxStartups 200
MaxSessions 200
Subsystem sftp internal-sftp
LogLevel VERBOSE
SetEnv {environment}
"""


_BIND = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


def bound(folder: Path, place: Path) -> list[str]:
    """`inside` of a server that finds `folder` in the place of another, in a mount namespace of its own."""
    return ["unshare", "--mount", "sh", "-c", _BIND, "sh", str(folder), str(place)]


def make_key(path: Path) -> None:
    argv = [tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


class SshServer:
    """`private_key` opens it as `username`; `host_key` is the line to pin ("ssh-ed25519 AAAA..."). `environment` is
    what its sessions find set, read at the next start."""

    def __init__(self, root: Path, address: str = "127.0.0.1", inside: Sequence[str] = ()) -> None:
        """`inside`: a command line that the server's own follows, to be run somewhere else."""
        root.mkdir(parents=True, exist_ok=True)
        self.root, self.address = root, address
        self.port = free_port()
        self.username = getpass.getuser()
        make_key(root / "client_key")
        (root / "authorized_keys").write_text((root / "client_key.pub").read_text())
        self.new_host_key()
        # Each of these hosts has its own agent's journal and lock, though they share a machine.
        self.more_config = ""  # lines of sshd_config, read at the next start
        self.environment = {"PADDOCK_AGENT_STATE": str(root / "agent-state")}
        # sshd wants its privilege separation folder to be there when it runs as root.
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        argv = [*inside, tool("sshd"), "-D", "-e", "-f", str(root / "sshd_config")]
        self.process = ServerProcess(argv, root / "sshd.log")

    def new_host_key(self) -> None:
        """Makes (another) host key; takes effect at the next start."""
        for name in ("host_key", "host_key.pub"):
            (self.root / name).unlink(missing_ok=True)
        make_key(self.root / "host_key")

    @property
    def host_key(self) -> str:
        return " ".join((self.root / "host_key.pub").read_text().split()[:2])

    @property
    def private_key(self) -> str:
        return (self.root / "client_key").read_text()

    def start(self) -> Self:
        self.start_only()
        self.wait()
        return self

    def start_only(self) -> None:
        environment = " ".join(f"{name}={value}" for name, value in self.environment.items())
        config = CONFIG.format(port=self.port, address=self.address, root=self.root, environment=environment)
        (self.root / "sshd_config").write_text(config + self.more_config)
        self.process.start()

    def wait(self) -> None:
        """Until it listens."""
        self.process.wait_for_port(self.port, address=self.address)

    def stop(self) -> None:
        self.process.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
