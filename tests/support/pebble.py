"""A certificate authority of one's own: Pebble and its challenge-test server, on private ports with its own roots."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.ports import free_port
from tests.support.process import ServerProcess
from tests.support.waiting import eventually

FOLDER = Path(os.environ.get("PADDOCK_TEST_TOOLS", Path.home() / ".cache" / "paddock-test-tools"))


def program(name: str) -> str:
    path = FOLDER / name
    assert path.is_file(), f"{path} is missing; `sh scripts/deps.sh test` installs it"
    return str(path)


class Pebble:
    """`http_port` and `tls_port` are where it looks for challenges, by the address 127.0.0.1 for every name. `dns` is
    another server to ask for names.
    """

    def __init__(
        self,
        root: Path,
        http_port: int,
        *,
        nonce_reject: int = 0,
        lifetime_s: int = 7776000,
        eab: dict[str, str] | None = None,
        dns: str = "",
        tls_port: int = 0,
        caa_identities: Sequence[str] = (),
    ) -> None:
        self.root = root / "pebble"
        self.root.mkdir(parents=True, exist_ok=True)
        self.port, self.management, self.dns, self.dns_management = (free_port() for _ in range(4))
        self._make_certificate()
        config: dict[str, Any] = {
            "listenAddress": f"127.0.0.1:{self.port}",
            "managementListenAddress": f"127.0.0.1:{self.management}",
            "certificate": str(self.root / "server.crt"),
            "privateKey": str(self.root / "server.key"),
            "httpPort": http_port,
            "tlsPort": tls_port or free_port(),
            "ocspResponderURL": "",
            "externalAccountBindingRequired": bool(eab),
            "externalAccountMACKeys": eab or {},
            "retryAfter": {"authz": 1, "order": 1},
            "caaIdentities": list(caa_identities),
            "keyAlgorithm": "ecdsa",
            "profiles": {
                "default": {"description": "usual", "validityPeriod": 7776000},
                "shortlived": {"description": "six days", "validityPeriod": 518400},
            },
        }
        (self.root / "config.json").write_text(json.dumps({"pebble": config}))
        own = f"127.0.0.1:{self.dns}"
        self._names = ServerProcess(
            [
                *(program("pebble-challtestsrv"), "-dnsserver", own, "-management", f"127.0.0.1:{self.dns_management}"),
                *("-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""),
            ],
            self.root / "names.log",
        )
        self._authority = ServerProcess(
            [program("pebble"), "-config", str(self.root / "config.json"), "-dnsserver", dns or own],
            self.root / "authority.log",
            env={"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": str(nonce_reject), "PEBBLE_AUTHZREUSE": "0"},
        )

    def _make_certificate(self) -> None:
        """Of the authority's own HTTPS; self-signed, so it is its own root."""
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
                *("-subj", "/CN=pebble", "-days", "2", "-addext", "subjectAltName=IP:127.0.0.1"),
                *("-keyout", str(self.root / "server.key"), "-out", str(self.root / "server.crt")),
            ],
            check=True,
            capture_output=True,
        )

    @property
    def directory(self) -> str:
        return f"https://127.0.0.1:{self.port}/dir"

    @property
    def ca_pem(self) -> str:
        """What the authority's HTTPS is trusted by."""
        return (self.root / "server.crt").read_text()

    def root_pem(self) -> str:
        """The root of the certificates that it issues; another one each time that it starts."""
        return self.managed("/roots/0").decode()

    def managed(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        context = ssl.create_default_context(cadata=self.ca_pem)
        data = json.dumps(body).encode() if body is not None else None
        url = f"https://127.0.0.1:{self.management}{path}"
        with urllib.request.urlopen(url, data, timeout=10, context=context) as answer:
            return bytes(answer.read())

    def suggest(self, certificate_pem: str, start: str, end: str) -> None:
        """The renewal window that the authority names for a certificate from now on."""
        leaf = certificate_pem.split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
        window = json.dumps({"suggestedWindow": {"start": start, "end": end}})
        self.managed("/set-renewal-info/", {"Certificate": leaf, "ARIResponse": window})

    def resolve(self, name: str, address: str) -> None:
        """Make the name resolve to this IPv4 address instead of 127.0.0.1."""
        body = json.dumps({"host": f"{name}.", "addresses": [address]}).encode()
        urllib.request.urlopen(f"http://127.0.0.1:{self.dns_management}/add-a", body, timeout=10).close()

    def resolve_as_usual(self, name: str) -> None:
        body = json.dumps({"host": f"{name}."}).encode()
        urllib.request.urlopen(f"http://127.0.0.1:{self.dns_management}/clear-a", body, timeout=10).close()

    def orders(self) -> int:
        """How many orders were placed since it started."""
        return self._authority.said().count("to new order") + self._authority.said().count("Added order")

    def start(self) -> Self:
        self._names.start().wait_for_port(self.dns_management)
        self._authority.start().wait_for_port(self.port)
        assert eventually(lambda: b"BEGIN" in self.managed("/roots/0"))
        return self

    def stop(self) -> None:
        self._authority.stop()
        self._names.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
