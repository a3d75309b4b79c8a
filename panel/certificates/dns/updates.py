"""Write or remove one TXT record at a DNS server or provider. Both actions can be repeated."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import dns.exception
import dns.name
import dns.query
import dns.rcode
import dns.tsig
import dns.tsigkeyring
import dns.update
import requests
from django.conf import settings as panel_settings

from panel.certificates.dns.providers import PROVIDERS, DnsKind
from panel.core.errors import ApplicationError
from panel.core.resolvers import place_of
from panel.core.webhooks import is_allowed

TIMEOUT_S = 15.0
PROGRAM_TIMEOUT_S = 90.0
TTL_S = 60
_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_QUOTED = 500  # characters of a foreign error message


@dataclass(frozen=True)
class Record:
    zone: str
    name: str
    value: str


def record_add(kind: str, values: Mapping[str, str], record: Record) -> None:
    """Add a TXT record; other records of the same name stay. Raises ApplicationError if the DNS server or provider does
    not carry out the change.
    """
    _change("add", kind, values, record)


def record_remove(kind: str, values: Mapping[str, str], record: Record) -> None:
    """Remove a TXT record; a missing record is not an error. Raises ApplicationError if the DNS server or provider does
    not carry out the change.
    """
    _change("remove", kind, values, record)


def _change(action: str, kind: str, values: Mapping[str, str], record: Record) -> None:
    if kind == DnsKind.RFC2136:
        _rfc2136(action, values, record)
    elif kind == DnsKind.ACME_DNS:
        _acme_dns(action, values, record)
    elif kind == DnsKind.HOOK:
        _hook(action, values, record)
    else:
        _library(action, kind, values, record)


def public_address(host: str, port: int, field: str) -> str:
    """Return an IP address of the server `host`, which a team entered in its settings.
    Raises ApplicationError at `field` if an address of the server is neither public nor in
    PADDOCK_WEBHOOK_NETWORKS.
    """
    try:
        found = [str(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        raise ApplicationError(
            f"Paddock cannot resolve the DNS server {host}: {error}", field=field, retry=True
        ) from error
    closed = [address for address in found if not is_allowed(ipaddress.ip_address(address))]
    if closed:
        raise ApplicationError(
            f"{host} resolves to {closed[0]}, which is not a public address. The panel's operator can allow the "
            "network in PADDOCK_WEBHOOK_NETWORKS.",
            field=field,
        )
    return found[0]


# --- RFC 2136, signed by TSIG (RFC 8945) ---


def _rfc2136(action: str, values: Mapping[str, str], record: Record) -> None:
    host, port = place_of(values["server"], 53)
    address = public_address(host, port, "server")
    try:
        keyring = dns.tsigkeyring.from_text({values["key_name"]: values["secret"]})
    except (binascii.Error, dns.exception.DNSException, ValueError) as error:
        raise ApplicationError(
            "The TSIG key is not valid: its name is not a DNS name, or its secret is not base64.", field="secret"
        ) from error
    update = dns.update.UpdateMessage(
        record.zone, keyring=keyring, keyalgorithm=dns.name.from_text(values["algorithm"] + ".")
    )
    name = dns.name.from_text(record.name + ".")
    if action == "add":
        update.add(name, TTL_S, "TXT", f'"{record.value}"')
    else:
        update.delete(name, "TXT", f'"{record.value}"')
    try:
        answer = dns.query.tcp(update, address, timeout=TIMEOUT_S, port=port)
    except dns.tsig.PeerError as error:
        raise ApplicationError(f"The DNS server refused the key {values['key_name']}: {_tsig(error)}.") from error
    except (dns.exception.DNSException, OSError) as error:
        text = f"The DNS server {host} does not respond: {error or type(error).__name__}"
        raise ApplicationError(text, retry=True) from error
    if answer.rcode() == dns.rcode.SERVFAIL:
        text = f"The DNS server {host} could not make the change (SERVFAIL). Check the log of the DNS server."
        raise ApplicationError(text, retry=True)
    if answer.rcode() != dns.rcode.NOERROR:
        code = dns.rcode.to_text(answer.rcode())
        raise ApplicationError(
            f"The DNS server {host} refused to change {record.name} in the zone {record.zone}: {code}. Check that "
            f"the server is a primary server of the zone, and that the key {values['key_name']} may change the zone."
        )


def _tsig(error: Exception) -> str:
    known = {
        dns.tsig.PeerBadKey: "the server does not know the key",
        dns.tsig.PeerBadSignature: "the secret or the algorithm differs from the server's key",
        dns.tsig.PeerBadTime: "the server's clock differs from the panel's clock",
    }
    return next((words for kind, words in known.items() if isinstance(error, kind)), type(error).__name__)


# --- acme-dns ---


def _acme_dns(action: str, values: Mapping[str, str], record: Record) -> None:
    """Add a TXT value at acme-dns (https://github.com/joohoi/acme-dns). Do nothing for the action "remove".

    acme-dns cannot remove values; it keeps the last two.
    """
    if action == "remove":
        return
    parts = urlsplit(values["url"])
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ApplicationError("Enter a URL that starts with https:// and a host name.", field="url")
    public_address(parts.hostname, parts.port or 443, "url")
    try:
        answer = requests.post(
            values["url"].rstrip("/") + "/update",
            json={"subdomain": values["subdomain"], "txt": record.value},
            headers={"X-Api-User": values["username"], "X-Api-Key": values["password"]},
            timeout=TIMEOUT_S,
            allow_redirects=False,
        )
    except requests.RequestException as error:
        text = f"acme-dns at {values['url']} does not respond ({type(error).__name__})."
        raise ApplicationError(text, retry=True) from error
    if answer.status_code != 200:
        raise ApplicationError(f"acme-dns at {values['url']} refused the update with status {answer.status_code}.")


# --- hook programs of the panel's operator ---


def _hook(action: str, values: Mapping[str, str], record: Record) -> None:
    path = hook_path(values["program"])
    argv = [str(path), action, record.zone, record.name, record.value]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROGRAM_TIMEOUT_S, env=_hook_environment()
        )
    except subprocess.TimeoutExpired as error:
        raise ApplicationError(
            f"The program {path.name} did not end within {PROGRAM_TIMEOUT_S:.0f} s.", retry=True
        ) from error
    except OSError as error:
        raise ApplicationError(f"Paddock cannot start the program {path.name}: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-_QUOTED:]
        raise ApplicationError(
            f"The program {path.name} ended with exit code {done.returncode}: {said or 'no message'}"
        )


def _hook_environment() -> dict[str, str]:
    """Return the environment of hook programs, without the panel's own secrets."""
    return {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TZ")}


def hook_path(name: str) -> Path:
    """Return the path of a program in the folder PADDOCK_DNS_HOOKS.
    Raises ApplicationError unless only root or the panel's account can write to the folder and to the program.
    """
    folder = panel_settings.DNS_HOOKS
    if not folder:
        raise ApplicationError(
            "Paddock is not allowed to run programs for DNS records. The panel's operator can allow a folder of "
            "programs in PADDOCK_DNS_HOOKS.",
            field="program",
        )
    if not _PROGRAM.match(name):
        raise ApplicationError("Enter the program as a file name, without a folder.", field="program")
    path = Path(folder) / name
    for place in (Path(folder), path):
        try:
            found = place.lstat()
        except OSError as error:
            raise ApplicationError(
                f"{place} does not exist. Check PADDOCK_DNS_HOOKS and the name of the program.", field="program"
            ) from error
        is_writable = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        if found.st_uid not in (0, os.geteuid()) or is_writable or stat.S_ISLNK(found.st_mode):
            raise ApplicationError(
                f"{place} is a symbolic link, or accounts other than root and the panel's "
                "account may change it. Correct the file, its owner, and its permissions.",
                field="program",
            )
    if not path.is_file() or not os.access(path, os.X_OK):
        raise ApplicationError(f"{path} is not an executable file.", field="program")
    return path


# --- providers, by dns-lexicon in a separate process ---


def _library(action: str, kind: str, values: Mapping[str, str], record: Record) -> None:
    """Write or remove a record with dns-lexicon, in a separate process that can be killed after a time limit.

    Requests of dns-lexicon have no time limit themselves.
    """
    provider = PROVIDERS[kind]
    for setting in provider.settings:
        if setting.is_address:
            parts = urlsplit(values[setting.name])
            public_address(parts.hostname or "", parts.port or 443, setting.name)
    options = {option: values.get(name, "") for name, option in provider.options.items()}
    request = {
        "provider": provider.library,
        "options": {**options, **provider.fixed},
        "action": action,
        "zone": record.zone,
        "name": record.name,
        "value": record.value,
    }
    try:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("outside.py"))],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=PROGRAM_TIMEOUT_S,
            env=_hook_environment(),
        )
    except subprocess.TimeoutExpired as error:
        text = f"The DNS provider {DnsKind(kind).label} did not respond within {PROGRAM_TIMEOUT_S:.0f} s."
        raise ApplicationError(text, retry=True) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().split("\n")[-1][:_QUOTED]
        for secret in (values[row.name] for row in provider.settings if row.is_secret and values.get(row.name)):
            said = said.replace(secret, "•••")
        raise ApplicationError(f"The DNS provider {DnsKind(kind).label} refused the change of {record.name}: {said}")


def is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False
