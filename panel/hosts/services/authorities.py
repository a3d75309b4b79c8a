"""Services for SSH certificate authorities, and for host keys that they sign."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import ProtectedError
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.core.errors import Conflict
from panel.core.models import version_bump
from panel.hosts.models import AuthorityKind, Host, HostStatus, SshAuthority
from panel.hosts.services.base import store
from panel.remote import pool
from panel.remote.keys import key_line, load_private_key, new_private_key


def authority_create(*, actor: User, name: str, kind: str, public_key: str = "") -> SshAuthority:
    """Add an SSH authority. An authority that signs host keys needs its public key. For an authority that signs
    Paddock's keys, Paddock creates the private key, which never leaves the panel.

    Raises PermissionDenied, ValidationError.
    """
    row = SshAuthority()
    if kind == AuthorityKind.USER:
        if public_key:
            message = _(
                "Leave the public key empty. Paddock creates the key of an authority that signs Paddock's keys."
            )
            raise ValidationError({"public_key": message})
        row.private_key = new_private_key()
        public_key = key_line(load_private_key(row.private_key))
    values = {"name": name, "kind": kind, "public_key": public_key}
    store(actor=actor, instance=row, action="ssh_authority.create", values=values, allowed=frozenset(values))
    return row


@transaction.atomic
def authority_delete(*, actor: User, authority: SshAuthority, expected_version: int | None = None) -> None:
    """Delete an SSH authority. Raises Conflict if Paddock signs in to hosts with this authority.

    Hosts that were trusted because of the authority keep their last key as a pinned key.
    """
    require(actor, Action.ADMINISTER)
    version_bump(authority, expected_version)
    try:
        with transaction.atomic():
            before, name = snapshot(authority), authority.name
            audit_record(actor=actor, action="ssh_authority.delete", target=authority, before=before)
            authority.delete()
    except ProtectedError as error:
        hosts = ", ".join(sorted(str(item) for item in error.protected_objects))
        raise Conflict(
            _(
                "Paddock signs in with the authority %s to these hosts: %s. Choose another way to sign in "
                "to these hosts first."
            )
            % (name, hosts)
        ) from None
    transaction.on_commit(pool.close, robust=True)  # open connections may depend on the authority


def certified_key_keep(host: Host, line: str) -> None:
    """Make the host key `line` the trusted key of the host. An SSH authority has signed this key.

    The panel keeps the private key and the passwords that it has stored for this host, because the signature confirms
    that the host is still the same.
    """
    changed = host.host_key != line
    before = snapshot(host)
    host.host_key, host.offered_host_key = line, ""
    host.status, host.status_detail = HostStatus.READY, ""
    if changed:
        version_bump(host, None)
    host.save(update_fields=["host_key", "offered_host_key", "status", "status_detail", "updated_at"])
    if changed:
        audit_record(actor=None, action="host.trust_certificate", target=host, before=before, after=snapshot(host))
