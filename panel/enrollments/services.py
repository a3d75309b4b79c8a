"""Services of enrollments: create and revoke enrollments, and add the hosts that use them."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Collection, Iterable

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require
from panel.accounts.services.digests import secret_digest
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError
from panel.enrollments.models import Enrollment
from panel.enrollments.report import Report
from panel.enrollments.selectors import enrollment_of
from panel.hosts.models import Host
from panel.hosts.selectors import public_key
from panel.hosts.services.enrolled import host_enrolled, host_enrolled_check

PREFIX = "pde_"
LONGEST = dt.timedelta(days=30)
GONE = gettext_lazy(
    "This enrollment is not valid: it has expired, has added all its hosts, or was revoked. Create a new "
    "enrollment in the panel."
)


@transaction.atomic
def enrollment_create(
    *,
    actor: User,
    valid_for: dt.timedelta,
    most_hosts: int = 1,
    username: str = "paddock",
    tags: Iterable[str] = (),
    teams: Collection[Team] = (),
) -> tuple[Enrollment, str]:
    """Create an enrollment; return the enrollment and its token. Only the SHA-256 of the token is stored.
    Raises PermissionDenied, and ValidationError by field.
    """
    require(actor, Action.ADMINISTER)
    if not dt.timedelta() < valid_for <= LONGEST:
        raise ValidationError({"hours": _("Enter a duration of at most %d days.") % LONGEST.days})
    token = PREFIX + secrets.token_urlsafe(32)
    row = Enrollment(
        digest=secret_digest(token),
        created_by=actor,
        expires_at=timezone.now() + valid_for,
        most_hosts=most_hosts,
        username=username,
        tags=sorted(set(tags)),
    )
    row.full_clean()
    row.save()
    row.teams.set(teams)
    after = {"expires_at": row.expires_at.isoformat(), "most_hosts": most_hosts, "username": username}
    after |= {"tags": row.tags, "teams": sorted(team.slug for team in teams)}
    audit_record(actor=actor, action="enrollment.create", target=row, after=after)
    return row, token


@transaction.atomic
def enrollment_revoke(*, actor: User, enrollment: Enrollment) -> None:
    """Revoke an enrollment, so that no further host can use it. Hosts that it added stay."""
    require(actor, Action.ADMINISTER)
    if Enrollment.objects.filter(pk=enrollment.pk, revoked_at=None).update(revoked_at=timezone.now()):
        audit_record(actor=actor, action="enrollment.revoke", target=enrollment)


@transaction.atomic
def host_add(*, token: str, address: str, report: Report) -> tuple[Host, str]:
    """Add the host that sent `report` from `address`; return the host and the line for its authorized_keys file.

    A host whose command was interrupted gets the same response again. If an enrollment has room for one more host and
    two hosts use it at once, only one of them is added. Raises ApplicationError with the code `gone` if the enrollment
    is unknown, ended, or used up. Raises ValidationError by field.
    """
    row = enrollment_of(token)
    if row is None:
        raise ApplicationError(str(GONE), code="gone")
    line = " ".join(report.host_key.split()[:2])
    waiting = row.waiting_at(address).filter(port=report.port, host_key=line).first()
    if waiting is not None:
        return waiting, public_key(waiting)
    if not row.is_open:
        raise ApplicationError(str(GONE), code="gone")
    taken = Enrollment.objects.filter(pk=row.pk, revoked_at=None, used__lt=F("most_hosts"))
    if not taken.update(used=F("used") + 1):
        raise ApplicationError(str(GONE), code="gone")
    host = host_enrolled(
        name=report.name,
        address=address,
        port=report.port,
        username=row.username,
        host_key=report.host_key,
        tags=row.tags,
        teams=list(row.teams.all()),
    )
    row.hosts.add(host)
    audit_record(actor=None, action="enrollment.use", target=row, after={"host": host.name, "address": address})
    return host, public_key(host)


def host_ready(*, token: str, name: str) -> None:
    """Start the check of an enrolled host, which accepts the panel's SSH key now.
    Raises ApplicationError with the code `gone` if the enrollment with this token is unknown or did not add the host.
    """
    row = enrollment_of(token)
    host = row.hosts.filter(name=name).first() if row is not None else None
    if host is None:
        raise ApplicationError(str(GONE), code="gone")
    host_enrolled_check(host)
