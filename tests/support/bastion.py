"""A bastion in a network of its own, and hosts behind it that nothing else reaches. Needs root and iproute2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.namespace_hosts import Machine, Switch
from tests.support.process import tool
from tests.support.sshd import SshServer
from tests.support.waiting import eventually


@dataclass
class Behind:
    """`bastion` is reached over the network; `hosts` listen on the loopback address of its network namespace."""

    bastion: Machine
    hosts: list[SshServer]

    def allow_forwarding(self, options: str) -> None:
        """Put these options in front of Paddock's key on the bastion."""
        public = (self.bastion.sshd.root / "client_key.pub").read_text()
        (self.bastion.sshd.root / "authorized_keys").write_text(f"{options} {public}")


@contextmanager
def behind_bastion(root: Path, count: int = 1) -> Iterator[Behind]:
    with ExitStack() as ended:
        switch = ended.enter_context(Switch())
        bastion = ended.enter_context(Machine(root / "bastion", switch))
        inside = [tool("nsenter"), "--target", f"{bastion.first_process}", "--net", "--"]
        hosts = [SshServer(root / f"host-{number}", "127.0.0.1", inside) for number in range(count)]
        for sshd in hosts:
            sshd.start_only()
            ended.callback(sshd.stop)
            log = sshd.root / "sshd.log"
            assert eventually(lambda log=log: "Server listening" in log.read_text()), log.read_text()
        yield Behind(bastion, hosts)
