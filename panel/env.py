"""Parse settings from environment variables, and derive settings such as folders and database options from them.

Every variable `X` can also be given as `X_FILE`, the path of a file with the value (Docker and systemd credentials),
so that secrets need not be in the environment. Errors name the variable and the allowed values. The library environs
reads the variables.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from environs import FileAwareEnv

read = FileAwareEnv(strip_whitespace=True)


def refuse_double_settings() -> None:
    """Raise ImproperlyConfigured if a variable is given as a value and as a file; environs would ignore the value."""
    for file_name in [name for name in os.environ if name.startswith("PADDOCK_") and name.endswith("_FILE")]:
        name = file_name.removesuffix("_FILE")
        if name in os.environ:
            raise ImproperlyConfigured(f"Both {name} and {file_name} are set. Set only one of them.")


def words(name: str, default: str = "") -> list[str]:
    """Return the items of an environment variable with a comma-separated list: `a.example, b.example`."""
    return [part.strip() for part in read.str(name, default).split(",") if part.strip()]


def folder(name: str, default: Path) -> Path:
    """Return the path of a folder to which this system account can write. A missing folder is created, accessible to
    this account only. Raises ImproperlyConfigured if the folder cannot be created or written to.
    """
    path = Path(read.str(name, "") or default).expanduser().resolve()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name} is {path}, which cannot be created: {error.strerror}. Choose another folder."
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise ImproperlyConfigured(
            f"{name} is {path}, which this account ({os.geteuid()}) cannot write to. Choose another "
            f"folder, or change its owner: chown {os.geteuid()} {path}"
        )
    return path


def shut_folder(path: Path) -> Path | None:
    """Return the topmost of `path` and its parent folders that other accounts cannot enter; None if there is none."""
    way = [*reversed(path.parents), path]
    return next((folder for folder in way if folder.exists() and not folder.stat().st_mode & 0o001), None)


# Folder for sites of servers that root started, if the panel's data folder is private.
SYSTEM_FOLDER = Path("/var/lib/paddock")


def host_folder(name: str, home: Path) -> Path:
    """Return the folder for web servers and sites on the panel's own host.

    The environment variable `name` sets the folder; the default is `home`/host. If the panel runs as root and other
    accounts cannot enter the folder above `home`, the default is below /var/lib: web servers that root starts run
    as unprivileged accounts.
    """
    if given := read.str(name, ""):
        return Path(given).expanduser().resolve()
    inside = home / "host"
    if os.geteuid() != 0 or inside.exists() or shut_folder(home.parent) is None:
        return inside
    return SYSTEM_FOLDER / hashlib.sha256(str(home).encode()).hexdigest()[:12]


def networks(name: str) -> list[str]:
    """Return the networks in an environment variable with a comma-separated list: `10.0.0.0/8, fd00::/8`.
    Raises ImproperlyConfigured for an invalid network.
    """
    found = words(name)
    for item in found:
        try:
            ipaddress.ip_network(item)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name} contains {item!r}, which is not a network: {error}.") from error
    return found


def database(url: str, at_once: int) -> dict[str, object]:
    """Return Django's database settings for `sqlite:///path` or `postgres://user:password@host:port/name`.
    `at_once` is the maximum number of connections of one process. PostgreSQL may have several hosts, `a:5432,b:5432`:
    connections go to the host that accepts writes (libpq, "Specifying Multiple Hosts").
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ImproperlyConfigured(f"PADDOCK_DATABASE_URL is not a valid URL: {error}.") from error
    if parts.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": unquote(parts.path),
            # With WAL, reads continue while one process writes; IMMEDIATE takes the write lock at BEGIN, so a
            # transaction waits instead of failing later with "database is locked".
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    if parts.scheme in {"postgres", "postgresql"}:
        account, _at, addresses = parts.netloc.rpartition("@")
        user, _colon, password = account.partition(":")
        hosts = [_host_and_port(address) for address in addresses.split(",")]
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.lstrip("/")),
            "USER": unquote(user),
            "PASSWORD": unquote(password),
            "HOST": ",".join(host for host, _port in hosts),
            "PORT": ",".join(port for _host, port in hosts),
            # Requests run in short-lived threads, so connections are pooled instead of kept per thread.
            "CONN_HEALTH_CHECKS": True,  # a connection broken by a restart of the database is replaced
            "OPTIONS": _postgres_options(hosts, at_once) | dict(parse_qsl(parts.query)),
        }
    raise ImproperlyConfigured(
        f"PADDOCK_DATABASE_URL has the unsupported scheme {parts.scheme!r}. Use sqlite:///path or "
        "postgres://user@host/name."
    )


def _host_and_port(address: str) -> tuple[str, str]:
    """Parse `host`, `host:port`, `[address]:port` or a quoted socket folder into (host, port); "" for a missing one."""
    try:
        parts = urlsplit(f"//{address}")
        return unquote(parts.hostname or ""), str(parts.port or "")
    except ValueError as error:
        raise ImproperlyConfigured(
            f"PADDOCK_DATABASE_URL has the host {address!r}, which is not valid: {error}. Use host, host:port, or "
            "several of them with commas."
        ) from error


def _postgres_options(hosts: list[tuple[str, str]], at_once: int) -> dict[str, object]:
    """Return options for connections to PostgreSQL, with which the loss of a host (power, network) is noticed in
    about ten seconds.
    """
    silence = {"connect_timeout": 3, "tcp_user_timeout": 8000}  # seconds, milliseconds
    probes = {"keepalives_idle": 4, "keepalives_interval": 2, "keepalives_count": 2}  # seconds, seconds, probes
    writable = {"target_session_attrs": "read-write"} if len(hosts) > 1 else {}
    return {"pool": {"min_size": 1, "max_size": at_once, "timeout": 20}, **silence, **probes, **writable}
