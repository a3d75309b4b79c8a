"""Real DNS servers on private addresses and ports: BIND and Knot as primary and secondary of one zone, and PowerDNS."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Self

import dns.message
import dns.query
import dns.rdatatype
import requests

from tests.support.ports import free_port
from tests.support.process import ServerProcess
from tests.support.waiting import eventually

KEY_NAME = "paddock-key"
KEY = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA=="
ZONE = "example"
SCHEMA = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql"


def zone_text(addresses: list[str], zone: str) -> str:
    servers = "".join(
        f"{zone}. 5 NS ns{n}.{zone}.\nns{n}.{zone}. 5 A {address}\n" for n, address in enumerate(addresses)
    )
    return (
        f"$TTL 5\n{zone}. SOA ns0.{zone}. admin.{zone}. 1 1 1 86400 1\n{servers}"
        f"shop.{zone}. 5 A 127.0.0.1\n"
        f"_acme-challenge.moved.{zone}. 5 CNAME elsewhere.{zone}.\n"
    )


class DnsServer:
    """It answers at `address` and `port`; `others` are the addresses of the zone's other servers.

    BIND listens only at addresses that an interface has, so it is the one at 127.0.0.1.
    """

    program = ""
    address = ""

    def __init__(
        self, root: Path, port: int, *, primary: str = "", others: tuple[str, ...] = (), zone: str = ZONE
    ) -> None:
        self.root = root / self.program
        self.root.mkdir(parents=True)
        self.port, self.primary, self.others, self.zone = port, primary, others, zone
        self.addresses = [primary or self.address, *(others if not primary else (self.address,))]
        self.configure()
        self.process = ServerProcess(self.argv(), self.root / "server.log")

    def configure(self) -> None:
        raise NotImplementedError

    def argv(self) -> list[str]:
        raise NotImplementedError

    def texts(self, name: str) -> list[str]:
        question = dns.message.make_query(name, dns.rdatatype.TXT)
        answer = dns.query.tcp(question, self.address, timeout=5, port=self.port)
        rows = [row for rrset in answer.answer if rrset.rdtype == dns.rdatatype.TXT for row in rrset]
        return [b"".join(row.strings).decode() for row in rows]

    def _answers(self) -> bool:
        question = dns.message.make_query(self.zone, dns.rdatatype.SOA)
        try:
            return bool(dns.query.udp(question, self.address, timeout=1, port=self.port).answer)
        except Exception:
            return False

    def start(self) -> Self:
        self.process.start()
        assert eventually(self._answers, timeout_s=30), self.process.said()
        return self

    def stop(self) -> None:
        self.process.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class Bind(DnsServer):
    program = "named"
    address = "127.0.0.1"

    def configure(self) -> None:
        zone = self.root / "zone"
        if not self.primary:
            zone.write_text(zone_text(self.addresses, self.zone))
        notified = " ".join(f"{address} port {self.port};" for address in self.others)
        role = (
            f"type slave; masters {{ {self.primary} port {self.port}; }}; allow-notify {{ 127.0.0.0/8; }};"
            " min-refresh-time 1;"
            if self.primary
            else f"type master; allow-update {{ key {KEY_NAME}; }}; also-notify {{ {notified} }}; notify explicit;"
        )
        (self.root / "named.conf").write_text(
            f'key {KEY_NAME} {{ algorithm hmac-sha256; secret "{KEY}"; }};\n'
            f'options {{ directory "{self.root}"; pid-file "{self.root}/pid"; session-keyfile none; recursion no;\n'
            f"  listen-on port {self.port} {{ {self.address}; }}; listen-on-v6 {{ none; }};\n"
            f"  allow-transfer {{ any; }}; notify-delay 0; startup-notify-rate 100;\n"
            f'  dnssec-validation no; key-directory "{self.root}"; }};\n'
            f"controls {{ }};\n"
            f'zone "{self.zone}" {{ file "{zone}"; {role} }};\n'
        )

    def argv(self) -> list[str]:
        return ["/usr/sbin/named", "-g", "-c", str(self.root / "named.conf"), "-n", "1"]


class Knot(DnsServer):
    program = "knotd"
    address = "127.0.0.2"

    def configure(self) -> None:
        zone = self.root / f"{self.zone}.zone"
        (self.root / "db").mkdir()
        if not self.primary:
            zone.write_text(zone_text(self.addresses, self.zone))
        far = [self.primary] if self.primary else list(self.others)
        remotes = "".join(f"  - id: r{n}\n    address: {address}@{self.port}\n" for n, address in enumerate(far))
        role = (
            "    master: r0\n    acl: notified\n"
            if self.primary
            else f"    notify: [{', '.join(f'r{n}' for n in range(len(far)))}]\n    acl: [changed, copied]\n"
        )
        (self.root / "knot.conf").write_text(
            f"server:\n  listen: {self.address}@{self.port}\n  rundir: {self.root}\n  user: root:root\n"
            f"log:\n  - target: stderr\n    any: info\n"
            f"database:\n  storage: {self.root}/db\n"
            f"key:\n  - id: {KEY_NAME}\n    algorithm: hmac-sha256\n    secret: {KEY}\n"
            + (f"remote:\n{remotes}" if far else "")
            + f"acl:\n  - id: changed\n    key: {KEY_NAME}\n    action: update\n"
            f"  - id: copied\n    address: 127.0.0.0/8\n    action: transfer\n"
            f"  - id: notified\n    address: 127.0.0.0/8\n    action: notify\n"
            f"zone:\n  - domain: {self.zone}\n    storage: {self.root}\n    file: {zone.name}\n"
            "    zonefile-load: whole\n" + (role if far else "    acl: [changed, copied]\n")
        )

    def argv(self) -> list[str]:
        return ["/usr/sbin/knotd", "-c", str(self.root / "knot.conf")]


class PowerDns:
    """A PowerDNS server with its API, and the zone in SQLite."""

    key = "an-api-key-of-powerdns"

    def __init__(self, root: Path) -> None:
        folder = root / "pdns"
        folder.mkdir()
        self.port, self.api_port = free_port(), free_port()
        database = folder / "zones.sqlite3"
        with sqlite3.connect(database) as connection:
            connection.executescript(Path(SCHEMA).read_text())
        self.process = ServerProcess(
            [
                *("/usr/sbin/pdns_server", "--daemon=no", "--guardian=no", "--config-dir=/nonexistent"),
                *("--launch=gsqlite3", f"--gsqlite3-database={database}", f"--socket-dir={folder}"),
                *("--local-address=127.0.0.1", f"--local-port={self.port}", "--api=yes", f"--api-key={self.key}"),
                *("--webserver=yes", "--webserver-address=127.0.0.1", f"--webserver-port={self.api_port}"),
                *("--cache-ttl=0", "--query-cache-ttl=0", "--negquery-cache-ttl=0", "--zone-cache-refresh-interval=0"),
            ],
            folder / "server.log",
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    def texts(self, name: str) -> list[str]:
        question = dns.message.make_query(name, dns.rdatatype.TXT)
        answer = dns.query.tcp(question, "127.0.0.1", timeout=5, port=self.port)
        rows = [row for rrset in answer.answer if rrset.rdtype == dns.rdatatype.TXT for row in rrset]
        return [b"".join(row.strings).decode() for row in rows]

    def __enter__(self) -> Self:
        self.process.start().wait_for_port(self.api_port)
        zone = {
            "name": f"{ZONE}.",
            "kind": "Native",
            "nameservers": [f"ns0.{ZONE}."],
            "rrsets": [
                {
                    "name": f"ns0.{ZONE}.",
                    "type": "A",
                    "ttl": 5,
                    "records": [{"content": "127.0.0.1", "disabled": False}],
                }
            ],
        }
        answer = requests.post(
            f"{self.url}/api/v1/servers/localhost/zones", json=zone, headers={"X-API-Key": self.key}, timeout=10
        )
        assert answer.status_code == 201, answer.text
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
