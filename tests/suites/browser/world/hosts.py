"""Hosts of the panel after months of use: one that works, with a long name, and one whose key changed."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.utils import timezone

from panel.hosts.models import Connection, Host, HostJob

LONG_HOST = "web-frankfurt-07-production-behind-the-second-load-balancer"
TAGS = ["eu-central", "env:production", "rack-7", "behind-the-second-load-balancer"]


def _public_key() -> str:
    return Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _facts() -> dict[str, Any]:
    other = {"engine": "nginx", "version": "1.22.1", "paths": {"main_config": "/opt/company/nginx/conf/nginx.conf"}}
    return {
        "os": {"name": "Debian GNU/Linux 12 (bookworm)"},
        "kernel": "6.1.0-28-amd64",
        "cpus": 16,
        "cpu_model": "AMD EPYC 7313P 16-Core Processor",
        "memory_bytes": 2**36,
        "python": "3.11.2",
        "tools": {"ab": {"version": "2.3"}, "wrk": {"version": "4.1.0"}},
        "other_servers": [other | {"fault": ""}],
    }


def build() -> tuple[Host, Host]:
    """One that works and one whose key changed."""
    now = timezone.now()
    times = {"facts_at": now, "last_seen_at": now}
    busy = Host.objects.create(
        name=LONG_HOST,
        connection=Connection.LOCAL,
        status="ready",
        site_roots=["/srv/www"],
        facts=_facts(),
        tags=TAGS,
        **times,
    )
    silence = "The host did not answer within 30 s. Check that its sshd runs, then check it again."
    for kind, status, error in (("service", "queued", ""), ("check", "succeeded", ""), ("drift", "failed", silence)):
        params = {"action": "reload"} if kind == "service" else {}
        ended = None if status == "queued" else now
        HostJob.objects.create(
            host=busy, kind=kind, status=status, error=error, params=params, started_at=ended, finished_at=ended
        )
    new = Host.objects.create(
        name="db-2",
        connection=Connection.SSH,
        address="db-2.example",
        username="admin",
        status="key_changed",
        host_key=_public_key(),
        offered_host_key=_public_key(),
    )
    return busy, new
