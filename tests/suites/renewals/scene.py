"""Hosts with HTTPS sites whose certificates will be due: an sshd and an nginx each, on addresses of the loopback
network, where an ACME authority reaches all of them at one port.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.expiring_certificates import certificate
from tests.support.nginx import NginxInstance
from tests.support.pebble import Pebble
from tests.support.ports import free_port
from tests.support.sshd import SshServer


@dataclass
class RenewalSite:
    name: str
    host: RenewalHost
    certificate: str = ""
    key: str = ""

    @property
    def domain(self) -> str:
        return f"{self.name}.example"


@dataclass
class RenewalHost:
    name: str
    address: str
    sshd: SshServer
    nginx: NginxInstance
    sites: list[RenewalSite] = field(default_factory=list)

    def reloads(self) -> int:
        """Reloads that nginx itself logged."""
        return self.nginx.reloads()


@dataclass
class Scene:
    hosts: list[RenewalHost]
    authority: Pebble
    http_port: int
    https_port: int

    @property
    def sites(self) -> list[RenewalSite]:
        return [site for host in self.hosts for site in host.sites]

    def given(self) -> dict[str, Any]:
        """Input of tests.suites.renewals.rows."""
        ports = {"http_port": self.http_port, "https_port": self.https_port}
        hosts = [_given(host, ports) for host in self.hosts]
        return {"directory": self.authority.directory, "ca_pem": self.authority.ca_pem, "hosts": hosts}


def _given(host: RenewalHost, ports: dict[str, int]) -> dict[str, Any]:
    sshd, root = host.sshd, host.nginx.root / "www"
    sites = [
        {"name": site.name, "domain": site.domain, "root": str(root), **ports}
        | {"certificate": site.certificate, "key": site.key}
        for site in host.sites
    ]
    keys = {"private_key": sshd.private_key, "host_key": sshd.host_key, "site_roots": [str(root)]}
    own = {"name": host.name, "address": host.address, "port": sshd.port, "username": sshd.username}
    return own | keys | {"paths": host.nginx.paths, "sites": sites}


def _host(root: Path, number: int, sites: int) -> RenewalHost:
    sshd, nginx = SshServer(root / "ssh"), NginxInstance(root / "web")
    sshd.environment["SHLVL"] = "1"  # otherwise bash reads ~/.bashrc, which takes time on some hosts
    host = RenewalHost(f"renewal-{number}", f"127.0.1.{number}", sshd, nginx)
    base = f"server {{ listen 127.0.0.1:{free_port()} default_server; return 200 base; }}\n"
    (nginx.root / "conf.d" / "base.conf").write_text(base)
    (nginx.root / "www" / "index.html").write_text("a page\n")
    for index in range(1, sites + 1):
        site = RenewalSite(f"site-{number}-{index}", host)
        site.certificate, site.key = certificate(site.domain, dt.timedelta(days=20))
        host.sites.append(site)
    return host


@contextmanager
def scene(root: Path, hosts: int, sites: int, **options: Any) -> Iterator[Scene]:
    """Running hosts and an authority that resolves each domain to its host. `options` are the authority's."""
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    http_port, https_port = free_port(), free_port()
    with ExitStack() as ended:
        ended.callback(shutil.rmtree, root, ignore_errors=True)
        found = [_host(root / f"h{number}", number, sites) for number in range(1, hosts + 1)]
        for host in found:
            ended.callback(host.sshd.stop)
            ended.callback(host.nginx.stop)
            host.sshd.start()
            host.nginx.start()
        authority = ended.enter_context(Pebble(root, http_port, **options))
        for host in found:
            for site in host.sites:
                authority.resolve(site.domain, host.address)
        yield Scene(found, authority, http_port, https_port)
