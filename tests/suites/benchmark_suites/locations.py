"""The hosts that suites run on: this machine, two hosts made of namespaces, or hosts that are reached over SSH."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from panel.core.errors import ApplicationError
from panel.hosts import jobs
from panel.hosts.models import Host, HostJob, HostJobKind, HostStatus, Layout
from tests.suites.benchmark_suites.suite_runner import add_web_servers, facts, local_host, ssh_host
from tests.support.namespace_hosts import Machine, Switch
from tests.support.process import tool


@dataclass(frozen=True)
class Address:
    """Of a host, as `ssh` takes it: `[USER@]ADDRESS[:PORT]`."""

    name: str
    user: str = ""
    port: int = 22

    @classmethod
    def of(cls, text: str) -> Address:
        """ApplicationError for what is none."""
        user, _, place = text.rpartition("@")
        # An IPv6 address stands in brackets where a port follows.
        name, port = place, "22"
        if place.startswith("["):
            name, _, port = place[1:].partition("]")
            port = port.removeprefix(":") or "22"
        elif place.count(":") == 1:
            name, _, port = place.partition(":")
        if not name or not port.isdecimal():
            raise ApplicationError(f"“{text}” is not [USER@]ADDRESS[:PORT].")
        return cls(name, user or getpass.getuser(), int(port))


@dataclass(frozen=True)
class Keys:
    """Files of OpenSSH's: the key that opens the hosts, and the keys that they are known by."""

    identity: Path
    known_hosts: Path

    def known(self, address: Address) -> str:
        """The key to pin. ApplicationError where the host is not known: who it is has to be made sure of by hand."""
        name = address.name if address.port == 22 else f"[{address.name}]:{address.port}"
        argv = [tool("ssh-keygen"), "-F", name, "-f", str(self.known_hosts)]
        said = subprocess.run(argv, check=False, capture_output=True, text=True).stdout
        lines = [line.split() for line in said.splitlines() if line and not line.startswith(("#", "@"))]
        keys = {words[1]: " ".join(words[1:3]) for words in lines if len(words) >= 3}
        for kind in ("ssh-ed25519", *keys):
            if kind in keys:
                return keys[kind]
        raise ApplicationError(f"{name} is not in {self.known_hosts}. Log in there once with ssh.")


@dataclass(frozen=True)
class Places:
    """`load` is the name of the host that the load comes from where it is another one."""

    servers: Host
    load: str = ""


@contextmanager
def here(programs: Mapping[str, str]) -> Iterator[Places]:
    host = local_host()
    add_web_servers(host, dict(programs))
    yield Places(host)


@contextmanager
def between_namespaces(home: Path, programs: Mapping[str, str]) -> Iterator[Places]:
    """Each of the two has its processes and its network; this machine's CPUs and files are both's."""
    folders = [home / "temporary-load", home / "temporary-servers"]
    for folder in folders:
        folder.mkdir(mode=0o755)
    with (
        Switch() as switch,
        Machine(home / "load", switch, TMPDIR=str(folders[0])) as load,
        Machine(home / "servers", switch, TMPDIR=str(folders[1])) as other,
    ):
        servers = ssh_host(other.sshd, "servers")
        Host.objects.filter(pk=servers.pk).update(facts=facts())
        servers.refresh_from_db()
        add_web_servers(servers, dict(programs))
        yield Places(servers, ssh_host(load.sshd, "load").name)


@contextmanager
def between_hosts(servers: Address, load: Address | None, keys: Keys) -> Iterator[Places]:
    """What they have is found as the panel's check of a host finds it."""
    host = _checked("servers", servers, keys)
    yield Places(host, _checked("load", load, keys).name if load else "")


def _checked(name: str, address: Address, keys: Keys) -> Host:
    host = Host.objects.create(
        name=name,
        address=address.name,
        port=address.port,
        username=address.user,
        private_key=keys.identity.read_text(),
        host_key=keys.known(address),
        status=HostStatus.NEW,
        layout=Layout.CONF_D,
    )
    jobs.check(HostJob.objects.create(host=host, kind=HostJobKind.CHECK))
    host.refresh_from_db()
    return host
