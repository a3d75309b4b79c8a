"""Replace the SSH key of a host: allow the new key on the host, sign in with it, and only then remove the old key
there.

The panel stores the new key before it sends the key to the host. If a worker dies, the next worker continues with the
same key. The panel signs in with the old key until it has signed in with the new one.
"""

from __future__ import annotations

from dataclasses import replace

from django.db import transaction
from django.utils.translation import gettext as _

from panel.audit.services import audit_record
from panel.core.errors import ApplicationError, Conflict
from panel.hosts.models import Connection, Host, HostJob
from panel.hosts.targets import target_for
from panel.remote import authorized_keys, pool, ssh
from panel.remote.errors import AuthenticationRefused
from panel.remote.keys import new_private_key, public_lines


def rotate(job: HostJob) -> dict[str, object]:
    """Replace the SSH key of the job's host; return {"public_key": new key}. If the new key cannot be used, the old key
    stays in use.
    """
    host = job.host
    if host.connection != Connection.SSH or not host.private_key:
        raise ApplicationError(
            _("Paddock does not sign in to %s with a stored SSH key, so there is no key to replace.") % host.name
        )
    if not host.former_public_key:
        _replace_key(job, host)
    _remove_former(host)
    return {"public_key": public_lines(host.private_key)}


def _replace_key(job: HostJob, host: Host) -> None:
    old, new = host.private_key, host.next_private_key or _prepared(host)
    target, old_lines = target_for(host), public_lines(old)
    new_line = public_lines(new, forwards=host.hosts_behind.exists())
    authorized_keys.key_add(target, new_line, old_lines.splitlines())
    try:
        ssh.connect(replace(target, private_key=new, authority_key="")).close()
    except AuthenticationRefused as error:
        authorized_keys.key_remove(target, new_line)
        Host.objects.filter(pk=host.pk).update(next_private_key="")
        words = _("%s does not accept the new SSH key, so Paddock keeps the old key: %s") % (host.name, error.message)
        raise ApplicationError(words) from error
    try:
        _store(job, host, old, new)
    except Conflict:
        authorized_keys.key_remove(target, new_line)
        raise
    pool.forget(host.name)
    host.refresh_from_db()


@transaction.atomic
def _store(job: HostJob, host: Host, old: str, new: str) -> None:
    """Store the new key of a host as the one for all later connections. Raises Conflict if the host's private key was
    edited meanwhile.
    """
    row = Host.objects.select_for_update().get(pk=host.pk)
    if row.private_key != old:
        raise Conflict(
            _("Somebody edited the host while Paddock replaced the key. Paddock keeps the key that was entered.")
        )
    row.private_key, row.next_private_key, row.former_public_key = new, "", public_lines(old)
    row.save(update_fields=["private_key", "next_private_key", "former_public_key"])
    after = {"public_key": public_lines(new)}
    audit_record(actor=job.requested_by, action="host.key_replaced", target=row, after=after)


@transaction.atomic
def _prepared(host: Host) -> str:
    """Return the private key that will replace the host's key. If none is prepared, create a key and store it before
    its first use.
    """
    row = Host.objects.select_for_update().get(pk=host.pk)
    row.next_private_key = row.next_private_key or new_private_key()
    row.save(update_fields=["next_private_key"])
    return row.next_private_key


def _remove_former(host: Host) -> None:
    """Remove the old public key from authorized_keys on the host, over a connection that signs in with the new key."""
    for line in host.former_public_key.splitlines():
        authorized_keys.key_remove(target_for(host), line)
    Host.objects.filter(pk=host.pk).update(former_public_key="")
