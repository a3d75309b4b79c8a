"""Allowances: names, addresses and services that a team may use although they belong to other owners."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.models import BaseModel
from panel.hosts.models import Host
from panel.websites import rules, validators


class AllowanceKind(models.TextChoices):
    NAME = "name", _("Name")
    ADDRESS = "address", _("Address")
    DEFAULT = "default", _("Default server")
    SERVICE = "service", _("Local service")


class Allowance(BaseModel):
    """An administrator's permission for a team to use a resource of another owner.

    Kinds: `name`, a server name that overlaps another team's. `address` and `default`, a socket (127.0.0.1:80) that
    receives requests for other teams' sites. `service`, a socket or an address of the host itself for upstreams and PHP
    pools; without a team, all teams may use it.
    """

    kind = models.CharField(max_length=8, choices=AllowanceKind.choices)
    value = models.CharField(max_length=300, validators=[validators.validate_line])
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.CASCADE, related_name="allowances")
    host = models.ForeignKey(Host, null=True, blank=True, on_delete=models.CASCADE, related_name="allowances")
    note = models.CharField(max_length=300, blank=True, validators=[validators.validate_line])
    granted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, editable=False, on_delete=models.SET_NULL, related_name="+"
    )
    # a service used by several teams before services had to be listed; an administrator must assign it again
    needs_review = models.BooleanField(default=False, editable=False)

    class Meta:
        ordering = ["kind", "value", "pk"]
        indexes = [models.Index(fields=["value"], name="websites_allowance_value")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.value}"

    def clean(self) -> None:
        rules.check_allowance(self)
