"""Hosts of the panel after months of use: one that works, with a long name, and one whose key changed."""

from __future__ import annotations

import datetime as dt
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.urls import reverse
from django.utils import timezone

from panel.certificates.models import CertificateReading, HostCertificate
from panel.failover.models import KeepalivedHost, VirtualAddress, VirtualAddressHost
from panel.failover.reading import digest
from panel.failover.selectors import draft_of
from panel.fpm.models import FpmPool
from panel.fpm.selectors import pool_spec
from panel.hosts.models import AuthorityKind, Connection, Host, HostJob, SshAuthority
from panel.hosts.resources.readings import reading_of
from panel.hosts.resources.services import resources_record
from panel.rendering.fpm import pool_file
from panel.rendering.keepalived import host_file
from panel.websites.models import Site

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


def _resources(host: Host) -> None:
    """A day of readings, the last of them with a full disk, a wrong clock and a pending reboot."""
    now = timezone.now()
    for step in range(145):
        reading = {
            "cpus": 16,
            "load": [3 + step % 7, 4.1, 3.9],
            "uptime_s": 7_000_000,
            "cpu": {"busy": step * (400 + step), "total": step * 1600},
            "memory": {"total": 2**36, "available": 2**35 - step * 2**27, "swap_total": 2**33, "swap_free": 2**32},
            "files": {"open": 41_288, "most": 2**40},
            "disks": [_disk("/", 0.4), _disk("/srv/customers/archive-of-uploads", 0.7 + step / 500)],
            "reboot": {"needed": True, "packages": ["linux-image-6.1.0-28-amd64", "libssl3"]},
            "time": 1100.0,
        }
        at = now - dt.timedelta(minutes=10 * (144 - step))
        resources_record(host, reading_of(reading, asked_at=1000.0, received_at=1000.5), at)


def _disk(mount: str, share: float) -> dict[str, Any]:
    total = 4 * 2**40
    sizes = {"total": total, "used": share * total, "free": (1 - share) * total}
    return {"mount": mount, "type": "ext4", "inodes": 10_000_000, "inodes_free": 6_000_000, "read_only": False, **sizes}


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
    _resources(busy)
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


def virtual_addresses(hosts: list[Host]) -> list[str]:
    """A virtual address whose second host has an edited file and a failing check; returns its pages."""
    row = VirtualAddress.objects.create(
        name="shop-entry", address="192.0.2.200/24", router_id=7, check_url="http://shop.example/health"
    )
    for position, host in enumerate(hosts):
        VirtualAddressHost.objects.create(
            virtual_address=row, host=host, address=f"192.0.2.{position + 1}", position=position
        )
    spec = draft_of(row)
    VirtualAddress.objects.filter(pk=row.pk).update(applied=spec.as_json())
    interfaces = {"192.0.2.1": "eth0", "192.0.2.2": "eth0"}
    for host, problem in zip(hosts, ("", "status 503"), strict=True):
        text = host_file([spec], host.name, interfaces)
        own = "192.0.2.1" if not problem else "192.0.2.2"
        seen = {
            "version": "2.2.7",
            "running": not problem,
            "main": "ours",
            "digest": digest(text if not problem else "edited"),
            "addresses": {own: "eth0"} | ({"192.0.2.200": "eth0"} if not problem else {}),
            "checks": {row.check_url: problem},
            "neighbours": {},
        }
        KeepalivedHost.objects.create(host=host, text=text, seen=seen, seen_at=timezone.now())
    return [
        reverse("failover:list"),
        reverse("failover:add"),
        reverse("failover:detail", args=[row.name]),
        reverse("failover:delete", args=[row.name]),
    ]


def fpm_pool(site: Site) -> list[str]:
    """A PHP-FPM pool whose file was edited on its host; returns its pages."""
    assert site.web_server is not None
    pool = FpmPool(
        site=site, host=site.web_server.host, name=f"paddock-{site.name}", php_version="8.2", account="shop",
        folder="/srv/www/shop", owner="www-data", group="www-data",
    )  # fmt: skip
    pool.text = pool_file(pool_spec(pool))
    pool.seen, pool.seen_at = {"digest": "0" * 64, "listens": True}, timezone.now()
    pool.save()
    return [reverse(f"fpm:{name}", args=[site.name]) for name in ("pool", "remove", "forget")]


def authorities(host: Host) -> list[str]:
    """An authority that signs host keys, and one that signs Paddock's keys for `host`; returns their pages."""
    SshAuthority.objects.create(name="hosts-of-the-second-datacenter-2026", kind="host", public_key=_public_key())
    signs = SshAuthority.objects.create(name="paddock", kind=AuthorityKind.USER, public_key=_public_key())
    Host.objects.filter(pk=host.pk).update(authority=signs)
    return [
        reverse("hosts:authorities"),
        reverse("hosts:authority_add"),
        reverse("hosts:authority_delete", args=["paddock"]),
    ]


def certificates_on_disk(host: Host) -> list[str]:
    """Certificates that Paddock does not manage, one of which expires soon, and a file that cannot be read."""
    now = timezone.now()
    config = "/etc/nginx/sites-enabled/a-shop-with-a-long-name-and-many-names.conf"
    for days, name, named_in in (
        (5, "old.example", [["nginx", config], ["apache", "/etc/apache2/sites-enabled/old.conf"]]),
        (60, "a-shop-with-a-long-name.eu-central.example", [["nginx", config]]),
        (-3, "mail.example", []),
    ):
        HostCertificate.objects.create(
            host=host,
            path=f"/etc/letsencrypt/live/{name}/fullchain.pem",
            named_in=named_in,
            names=[name, f"www.{name}", f"m.{name}"],
            subject=f"CN={name}",
            issuer="CN=R11,O=Let's Encrypt,C=US",
            fingerprint=f"{days % 97:064x}",
            not_before=now - dt.timedelta(days=80),
            not_after=now + dt.timedelta(days=days),
        )
    skipped = [{"path": "/etc/nginx/tls/$ssl_server_name.pem", "why": "The name contains a variable."}]
    CertificateReading.objects.create(host=host, at=now, tried_at=now, skipped=skipped, is_complete=False)
    return [reverse("certificates:on_host", args=[host.name])]
