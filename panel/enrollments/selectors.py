"""Selectors of enrollments; only administrators see them."""

from __future__ import annotations

from django.db.models import QuerySet

from panel.accounts.models import User
from panel.accounts.services.digests import secret_digest
from panel.enrollments.models import Enrollment

SHOWN = 200


def enrollments_visible(user: User) -> QuerySet[Enrollment]:
    rows = Enrollment.objects.select_related("created_by").prefetch_related("teams", "hosts")
    return rows if user.is_active and user.is_admin else rows.none()


def enrollment_of(token: str) -> Enrollment | None:
    """Return the enrollment with this token, also one that has ended; None for an unknown token."""
    return Enrollment.objects.select_related("created_by").filter(digest=secret_digest(token)).first()
