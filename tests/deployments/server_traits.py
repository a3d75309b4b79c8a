"""What the same tests need to know of each server that they deploy to: its files, and what it does not take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from panel.hosts.models import Engine, Layout, WebServer
from tests.deployments.real_host import Machine
from tests.support.nginx import NginxInstance
from tests.support.openlitespeed import OpenLiteSpeedInstance, source

# OpenLiteSpeed is in no distribution: it is one of them where PADDOCK_OPENLITESPEED names an installation.
SERVERS = ("nginx", *(("openlitespeed",) if source() else ()))


@dataclass(frozen=True)
class Served:
    """A server on the host. `wrong`: a directive that it refuses, with `words`. `away`: its
    status where an upstream is gone."""

    server: NginxInstance | OpenLiteSpeedInstance
    engine: Engine
    layout: Layout
    enabled: str
    wrong: str
    words: str
    away: int

    def web_server(self, machine: Machine) -> WebServer:
        return machine.web_server(self.server, self.engine, self.layout)

    def in_service(self) -> list[str]:
        """The files of sites by which the server answers."""
        return sorted(str(path) for path in self.server.root.glob(self.enabled))

    def leftovers(self, name: str) -> list[Path]:
        """What is there of a site by this name, but for its own pages and what the server wrote."""
        own = {"www", "log", "logs", "temp", "tmp", "cachedata"}
        return [path for path in self.server.root.rglob(f"*{name}*") if not own & set(path.parts)]


def nginx_served(server: NginxInstance) -> Served:
    return Served(
        server,
        Engine.NGINX,
        Layout.SITES,
        "sites-enabled/*",
        wrong="limit_req zone=maybe;",
        words='zero size shared memory zone "maybe"',
        away=502,
    )


def openlitespeed_served(server: OpenLiteSpeedInstance) -> Served:
    return Served(
        server,
        Engine.OPENLITESPEED,
        Layout.VHOSTS,
        "conf/vhosts/*/vhconf.conf",
        wrong="context /maybe/ {\n  order 1\n}",
        words="path is not accessible",
        away=503,
    )
