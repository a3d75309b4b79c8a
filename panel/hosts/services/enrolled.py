"""Services for hosts that add themselves: they report their host key, so nobody has to compare fingerprints."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import count

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.text import slugify
from django.utils.translation import gettext as _

from panel.accounts.models import Team
from panel.audit.services import audit_record, snapshot
from panel.hosts.models import Connection, Host, HostJobKind, HostStatus
from panel.hosts.rules import DEFAULT_ROOTS
from panel.hosts.services.jobs import host_job_request
from panel.remote.errors import InvalidKey
from panel.remote.keys import new_private_key, parse_key_line

_NAME_CHARACTERS = 50  # leaves room for a number


@transaction.atomic
def host_enrolled(
    *, name: str, address: str, port: int, username: str, host_key: str, tags: Iterable[str], teams: Collection[Team]
) -> Host:
    """Create a host with its reported host key and a new private key. The caller has checked the right to enroll.

    If another host has the wanted name, a number is appended. Raises ValidationError by field.
    """
    _check_key(host_key)
    host = Host(
        connection=Connection.SSH,
        status=HostStatus.NEW,
        name=_free_name(name),
        address=address,
        port=port,
        username=username,
        use_sudo=username != "root",
        host_key=" ".join(host_key.split()[:2]),
        private_key=new_private_key(),
        site_roots=[*DEFAULT_ROOTS],
        tags=sorted(tags),
    )
    _refuse_known(host)
    host.full_clean()
    host.save()
    host.teams.set(teams)
    after = snapshot(host) | {"teams": sorted(team.slug for team in teams)}
    audit_record(actor=None, action="host.enroll", target=host, after=after)
    return host


def _check_key(line: str) -> None:
    """Raise ValidationError unless `line` is a host key whose data is of the type that the line names
    (RFC 4253, 6.6).
    """
    try:
        kind, blob = parse_key_line(line)
    except InvalidKey as error:
        raise ValidationError({"host_key": error.message}) from error
    named = kind.encode()
    if "\n" in line.strip() or blob[:4] != len(named).to_bytes(4, "big") or blob[4 : 4 + len(named)] != named:
        raise ValidationError(
            {
                "host_key": _(
                    "The host key is not valid: its data does not match the key type. Run the enrollment script again."
                )
            }
        )


def host_enrolled_check(host: Host) -> None:
    """Queue a check of an enrolled host, once the host lets the panel sign in."""
    host_job_request(actor=None, host=host, kind=HostJobKind.CHECK)


def _free_name(wanted: str) -> str:
    stem = slugify(wanted.partition(".")[0])[:_NAME_CHARACTERS].strip("-_").replace("_", "-") or "host"
    taken = set(Host.objects.filter(name__startswith=stem).values_list("name", flat=True))
    return next(name for number in count(1) if (name := stem if number == 1 else f"{stem}-{number}") not in taken)


def _refuse_known(host: Host) -> None:
    """Raise ValidationError if the panel already has a host with the same address, port and key. Deployments would
    otherwise reach the same machine twice.
    """
    known = Host.objects.filter(address=host.address, port=host.port, host_key=host.host_key).first()
    if known is not None:
        words = _("This host is already in the panel as %s. Delete that host first to enroll it again.")
        raise ValidationError({"host_key": words % known.name})
