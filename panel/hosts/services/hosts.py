"""Services for hosts: add, trust, change, pause, delete, and register known hosts."""

from __future__ import annotations

import getpass
import hmac
import os
import socket
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F, ProtectedError
from django.utils import timezone
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.core.errors import ApplicationError, Conflict
from panel.core.models import version_bump
from panel.hosts.by_hand import fingerprints_in
from panel.hosts.models import Connection, Host, HostJobKind, HostStatus, WebServer
from panel.hosts.selectors import host_losses
from panel.hosts.services.authorities import certified_key_keep
from panel.hosts.services.base import store
from panel.hosts.services.jobs import host_job_request
from panel.hosts.services.teams import host_teams_set
from panel.hosts.targets import ssh_target
from panel.remote import pool, ssh
from panel.remote.keys import fingerprint, new_private_key, parse_key_line

SECRETS = frozenset({"private_key", "password", "sudo_password"})
PLACE = frozenset({"address", "port", "bastion"})
# stored secrets are valid only for the same values of these fields and the same trusted host key (decision 0410)
BOUND = frozenset({"address", "port", "username"})
SIGN_INS = ("private_key", "password", "authority")  # at least one is needed
WAY = PLACE | SECRETS | {"username", "use_sudo", "authority"}  # settings of the connection
NO_TOKEN = gettext_lazy(
    "A token cannot replace a trusted host key. Sign in to the panel, and confirm the new key with your password."
)
SECRETS_GONE = gettext_lazy(
    "The new host key is trusted. Paddock cleared the stored private key and passwords because they belong to the "
    "old host key. Edit the host, and enter them again."
)
FIELDS = frozenset({"name", "layout", "site_roots", "tags"}) | WAY


def host_create(
    *, actor: User, name: str, address: str, username: str, teams: Collection[Team] = (), **values: Any
) -> Host:
    """Add a host over SSH, not yet trusted, and queue a check that reads its host key; no secret is sent.

    Without a private key, a password and an authority, Paddock creates a key; selectors.sign_in_command returns the
    command that adds the key on the host. Only `teams` see and use the host; if empty, every team does. Keys of
    `values`: port, bastion, private_key, password, authority, use_sudo, sudo_password, layout, site_roots, tags. Raises
    PermissionDenied, ValidationError, ApplicationError.
    """
    host = Host(connection=Connection.SSH, status=HostStatus.NEW)
    given = {"name": name, "address": address, "username": username, **values}
    if not any(given.get(name) for name in SIGN_INS):
        given["private_key"] = new_private_key()
    with transaction.atomic():
        store(actor=actor, instance=host, action="host.create", values=given, allowed=FIELDS)
        host_teams_set(actor=actor, host=host, teams=teams)
        host_job_request(actor=actor, host=host, kind=HostJobKind.CHECK)
    return host


def host_update(
    *,
    actor: User,
    host: Host,
    expected_version: int | None = None,
    new_key: bool = False,
    teams: Collection[Team] | None = None,
    **values: Any,
) -> Host:
    """Change a host. The pinned host key stays, so Paddock detects another machine at a new address before it sends
    data.

    A new address, port or user deletes the stored private key and passwords, except those in `values`. The host must
    still have a private key, a password or an authority to sign in with. A host with new connection settings is checked
    at once. `new_key` replaces the private key with a new one, which must be added on the host
    (selectors.sign_in_command).
    """
    require(actor, Action.ADMINISTER)
    if new_key:
        values["private_key"] = _created_key(values.get("private_key"))
    with transaction.atomic():
        old = Host.objects.select_for_update().get(pk=host.pk)
        values |= _secrets_cleared(old, values)
        _require_sign_in(old, values)
        store(
            actor=actor,
            instance=host,
            action="host.update",
            values=values,
            allowed=FIELDS,
            expected_version=expected_version,
        )
        if teams is not None:
            host_teams_set(actor=actor, host=host, teams=teams)
        _follow_change(actor, old, host, set(values))
    transaction.on_commit(lambda: pool.forget(old.name), robust=True)
    return host


def _follow_change(actor: User, old: Host, host: Host, names: set[str]) -> None:
    """Apply the consequences of changed fields (`names`) of a host.

    New site folders outdate the plans of its web servers. A new private key, user or address drops a key that was
    prepared for a key rotation. New connection settings queue a check of the host.
    """
    if old.site_roots != host.site_roots:  # the files of its web servers' sites depend on these folders
        WebServer.objects.filter(host=host).update(row_version=F("row_version") + 1, updated_at=timezone.now())
    if old.private_key != host.private_key or old.username != host.username or old.address != host.address:
        Host.objects.filter(pk=host.pk).update(next_private_key="", former_public_key="")
    changed = {name for name in WAY & names if getattr(old, name) != getattr(host, name)}
    if changed & PLACE:
        host.offered_host_key = host.status_detail = ""
        host.save(update_fields=["offered_host_key", "status_detail"])
    if changed and host.connection == Connection.SSH:
        host_job_request(actor=actor, host=host, kind=HostJobKind.CHECK)


def _created_key(entered: object) -> str:
    if entered:
        raise ValidationError({"private_key": _("Enter a private key or select “Create a new key”, not both.")})
    return new_private_key()


def _require_sign_in(old: Host, values: dict[str, object]) -> None:
    if old.connection == Connection.LOCAL:
        return
    if not any(values.get(name, getattr(old, name)) for name in SIGN_INS):
        message = _("Enter a private key or a password for SSH, choose an authority, or select “Create a new key”.")
        raise ValidationError({"private_key": message})


def _secrets_cleared(old: Host, values: dict[str, object]) -> dict[str, str]:
    """Return {field: ""} for each stored private key or password that belongs to the old address, port or user of a
    host; {} if these do not change.

    Raises ValidationError at the cleared field if no private key, password or authority remains to sign in with.
    """
    # Without a trusted key, another bastion may be the way to another machine.
    bound = BOUND if old.host_key else BOUND | PLACE
    if not any(name in values and getattr(old, name) != values[name] for name in bound):
        return {}
    cleared = {name: "" for name in SECRETS if getattr(old, name) and name not in values}
    after = {name: values.get(name, "") for name in ("private_key", "password")}
    if cleared and not any(after.values()) and not values.get("authority", old.authority):
        message = (
            f"Enter this value again. The stored value belongs to {old.username}@{old.address}, port {old.port}, "
            "and Paddock sends it to no other host."
        )
        raise ValidationError({name: message for name in after if name in cleared} or {"private_key": message})
    return cleared


@transaction.atomic
def hosts_pause(*, actor: User, hosts: Iterable[Host], paused: bool) -> list[Host]:
    """Pause or resume hosts. No deployments, measurements or drift checks start on paused hosts; running and queued
    jobs continue. Hosts already in the wanted state are skipped without an audit entry.
    """
    require(actor, Action.ADMINISTER)
    chosen = list({host.pk: host for host in hosts}.values())
    if not chosen:
        raise ApplicationError("No hosts selected. Choose at least one host.", field="hosts")
    for host in chosen:
        rows = Host.objects.filter(pk=host.pk, is_paused=not paused)
        if rows.update(is_paused=paused, row_version=F("row_version") + 1, updated_at=timezone.now()):
            audit_record(actor=actor, action="host.pause" if paused else "host.resume", target=host)
        host.refresh_from_db(fields=["is_paused", "row_version", "updated_at"])
    return chosen


def refuse_paused(hosts: Iterable[Host]) -> None:
    """Raise Conflict if one of the hosts is paused. Called before a deployment, measurement or other change starts on
    hosts.
    """
    names = Host.objects.filter(pk__in=[host.pk for host in hosts], is_paused=True).values_list("name", flat=True)
    if names:
        raise Conflict(
            f"These hosts are paused: {', '.join(sorted(names))}. No jobs start on a paused host until an "
            "administrator resumes the host."
        )


def host_delete(*, actor: User, host: Host, confirm: str, expected_version: int | None = None) -> None:
    """Delete a host's data in the panel. Nothing changes on the host.

    Raises ValidationError if `confirm` is not the host's name, and Conflict if the host has sites or is a bastion.
    """
    require(actor, Action.ADMINISTER)
    name = host.name
    if not hmac.compare_digest(confirm, name):
        raise ValidationError({"confirm": f"Type {name} to confirm. You will lose: {_joined(host_losses(host))}."})
    behind = sorted(host.hosts_behind.values_list("name", flat=True))
    if behind:
        raise Conflict(
            f"{name} cannot be deleted because it is the bastion of {', '.join(behind)}. Choose another bastion for "
            "these hosts first."
        )
    sites = sorted(site.name for web_server in host.web_servers.all() for site in web_server.sites.all())
    if sites:
        raise Conflict(f"{name} cannot be deleted because it has sites: {', '.join(sites)}. Move or delete them first.")
    try:
        with transaction.atomic():
            version_bump(host, expected_version)
            audit_record(actor=actor, action="host.delete", target=host, before=snapshot(host))
            host.deployments.all().delete()
            host.web_servers.all().delete()
            host.delete()
    except ProtectedError as error:
        kinds = sorted({str(item._meta.verbose_name) for item in error.protected_objects})
        raise Conflict(
            f"{name} cannot be deleted because these objects still use the host: {', '.join(kinds)}. Delete them first."
        ) from None
    transaction.on_commit(lambda: pool.forget(name), robust=True)


def _joined(losses: list[str]) -> str:
    return ", ".join(losses) or "only the entry in the panel"


def host_offer_key(*, actor: User | None, host: Host) -> Host:
    """Read the host key without authentication, and store it for confirmation by a user; return the host.

    The trusted (pinned) key stays until `host_trust_key`, but a key that a trusted SSH authority signed is pinned at
    once. A host that offers its pinned key gets the status ready. Raises RemoteError if the host does not respond.
    """
    if actor is not None:
        require(actor, Action.ADMINISTER)
    if host.connection == Connection.LOCAL:
        raise ApplicationError(
            f"{host.name} is the panel's own host, so there is no host key to confirm.", code="local_host"
        )
    offered = ssh.offered_key(ssh_target(host))
    with transaction.atomic():
        # Meanwhile another check may have read the key, and a user trusted it.
        row = Host.objects.select_for_update().get(pk=host.pk)
        if offered.is_certified:
            certified_key_keep(row, offered.line)
        else:
            _offered_key_keep(row, offered.line)
    host.refresh_from_db(fields=["host_key", "offered_host_key", "status", "status_detail", "updated_at"])
    return host


def _offered_key_keep(row: Host, line: str) -> None:
    row.offered_host_key = "" if line == row.host_key else line
    if row.offered_host_key and row.host_key:
        row.status = HostStatus.KEY_CHANGED
    else:
        row.status_detail = ""  # the host responds again
        row.status = HostStatus.READY if row.host_key else row.status
    row.save(update_fields=["offered_host_key", "status", "status_detail", "updated_at"])


@transaction.atomic
def host_trust_key(*, actor: User, host: Host, confirmed: str) -> Host:
    """Trust (pin) the host key that the host offers; return the host.

    `confirmed` is the key that the user compared: its fingerprint (SHA256:...), output of ssh-keygen with the
    fingerprint, or the whole key line. Raises ValidationError if the host now offers another key. A first trusted key
    queues a check of the host. Replacing a trusted key deletes the stored secrets, which were entered for another
    machine. Requests with a token cannot replace a key; sessions confirm the password first.
    """
    require(actor, Action.ADMINISTER)
    host = Host.objects.select_for_update().get(pk=host.pk)
    if host.host_key and actor.scopes is not None:
        raise ApplicationError(str(NO_TOKEN), code="session_required")
    if not host.offered_host_key:
        raise Conflict(f"{host.name} has no host key to confirm. Check the host to read the key again.")
    kind, _blob = parse_key_line(host.offered_host_key)
    shown = fingerprint(host.offered_host_key)
    if confirmed.strip() != host.offered_host_key and shown not in fingerprints_in(confirmed):
        message = (
            f"{host.name} presents {shown} ({kind}), which differs from the key that you confirmed. Compare the "
            "fingerprints and try again. If the host does not have the presented key, something else responds at "
            "the host's address."
        )
        raise ValidationError({"confirmed": message})
    before, replaces = snapshot(host), bool(host.host_key)
    host.host_key, host.offered_host_key = host.offered_host_key, ""
    host.status, host.status_detail = HostStatus.READY, ""
    if replaces:
        host.private_key = host.password = host.sudo_password = ""
        host.status, host.status_detail = HostStatus.UNREACHABLE, str(SECRETS_GONE)
    version_bump(host, None)
    host.save(update_fields=["host_key", "offered_host_key", "status", "status_detail", "updated_at", *SECRETS])
    audit_record(actor=actor, action="host.trust_key", target=host, before=before, after=snapshot(host))
    transaction.on_commit(lambda: pool.forget(host.name), robust=True)
    if not replaces:
        host_job_request(actor=actor, host=host, kind=HostJobKind.CHECK)
    return host


def register_local_host() -> Host:
    """Register the panel's machine as a host, for embedded mode; return the existing row if there is one."""
    host = Host.objects.filter(connection=Connection.LOCAL).first()
    if host is not None:
        return host
    name = slugify(socket.gethostname().split(".")[0])[:63] or "this-machine"
    if Host.objects.filter(name=name).exists():
        name = f"{name[:57]}-local"
    root = settings.LOCAL_HOST_ROOT / "www"
    _make_enterable(root)
    if os.geteuid() == 0:
        _open_to_workers()
    values = {"name": name, "site_roots": [str(root)], "username": _login()}
    host = Host(connection=Connection.LOCAL, status=HostStatus.READY)
    store(actor=None, instance=host, action="host.register", values=values, allowed=FIELDS)
    return host


def register_ssh_host(*, name: str, host_key: str, **values: Any) -> Host:
    """Register a host with a known host key, such as those of docker-compose.yml. If a host of that name exists, return
    it unchanged.

    A new host is checked once a worker runs. `values`: as for `host_create`. Raises ValidationError, ApplicationError.
    """
    known = Host.objects.filter(name=name).first()
    if known is not None:
        return known
    parse_key_line(host_key)
    line = " ".join(host_key.split()[:2])
    host = Host(connection=Connection.SSH, status=HostStatus.READY, host_key=line)
    with transaction.atomic():
        store(actor=None, instance=host, action="host.register", values={"name": name, **values}, allowed=FIELDS)
        host_job_request(actor=None, host=host, kind=HostJobKind.CHECK)
    return host


def _make_enterable(folder: Path) -> None:
    """Create `folder` and missing parents with mode 0755, whatever the umask, so that other accounts can enter them."""
    if not folder.exists():
        _make_enterable(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def _open_to_workers() -> None:
    """Let all accounts enter the sites' folder on the panel's machine, but no other folder of the panel.

    If root starts a web server, its worker processes run as an unprivileged account, which must reach the sites.
    """
    settings.LOCAL_HOST_ROOT.chmod(0o711)
    if not settings.LOCAL_HOST_ROOT.is_relative_to(settings.HOME):
        return
    for entry in settings.HOME.iterdir():
        if entry != settings.LOCAL_HOST_ROOT and not entry.is_symlink():
            entry.chmod(entry.stat().st_mode & 0o700)
    settings.HOME.chmod(0o711)


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
