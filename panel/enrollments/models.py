"""Models of enrollments: the right of new hosts to add themselves with one command."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team, User
from panel.core.models import BaseModel
from panel.core.tags import TagsField
from panel.hosts.models import Host
from panel.hosts.validators import validate_username

MOST_HOSTS = 500


class Enrollment(BaseModel):
    """Right of new hosts to add themselves with a token until the enrollment expires, is used up, or is revoked.

    Only the SHA-256 of the token is stored. The enrollment ends when its creator is no longer an active administrator.
    """

    digest = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    most_hosts = models.PositiveSmallIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(MOST_HOSTS)]
    )
    used = models.PositiveSmallIntegerField(default=0)
    username = models.CharField(max_length=32, default="paddock", validators=[validate_username])
    tags = TagsField()
    teams = models.ManyToManyField(Team, blank=True, related_name="+")  # of the hosts; empty: all teams
    hosts = models.ManyToManyField(Host, related_name="enrollments")  # hosts that the enrollment added

    class Meta:
        ordering = ["-pk"]
        verbose_name = _("enrollment")
        verbose_name_plural = _("enrollments")

    def __str__(self) -> str:
        return f"Enrollment {self.pk}"

    @property
    def is_open(self) -> bool:
        """Return whether another host can use the enrollment."""
        return self.is_valid and self.used < self.most_hosts

    @property
    def is_valid(self) -> bool:
        """Return whether the enrollment is valid.

        An enrollment ends when it expires, is revoked, or its creator is no longer an active administrator.
        Hosts that a valid enrollment added can finish, even if no further host can use the enrollment.
        """
        creator = self.created_by
        is_running = self.revoked_at is None and self.expires_at > timezone.now()
        return is_running and creator is not None and creator.is_active and creator.is_admin

    def waiting_at(self, address: str) -> QuerySet[Host]:
        """Select the hosts that the enrollment added from `address` but that the panel never signed in to.
        On these hosts, the enrollment command was interrupted, or their first check has not run yet.
        """
        return self.hosts.filter(address=address, last_seen_at=None) if self.is_valid else self.hosts.none()
