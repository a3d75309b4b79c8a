"""Settings under a name, which the sites of a team share."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.models import BaseModel
from panel.hosts.models import Engine
from panel.websites import rules, shapes, validators


class SharedSetting(BaseModel):
    """A setting under a name, which the sites of its team use by writing `@name`. `slug` names the kind."""

    slug: ClassVar[str]

    name = models.SlugField(max_length=63, unique=True, validators=[validators.validate_slug])
    team = models.ForeignKey(Team, on_delete=models.PROTECT)

    class Meta:
        abstract = True
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class AccessList(SharedSetting):
    """Addresses and networks that access rules name."""

    slug = "access-list"

    sources = models.JSONField(validators=[shapes.validate_access_list])  # ["192.0.2.7", "10.0.0.0/8"]

    class Meta(SharedSetting.Meta):
        verbose_name = _("access list")
        verbose_name_plural = _("access lists")


class HeaderSet(SharedSetting):
    """Response headers that headers of server blocks and locations name."""

    slug = "header-set"

    headers = models.JSONField(validators=[shapes.validate_header_set])  # [{"name", "value", "always": true}]

    class Meta(SharedSetting.Meta):
        verbose_name = _("header set")
        verbose_name_plural = _("header sets")

    def clean(self) -> None:
        rules.check_header_set(self)


class DirectiveSet(SharedSetting):
    """Raw directives under a name, which the raw directives of sites include by that name. Only administrators edit
    them.
    """

    slug = "directive-set"

    engine = models.CharField(max_length=16, choices=Engine.choices)
    text = models.TextField(validators=[shapes.validate_directive_set])

    class Meta(SharedSetting.Meta):
        verbose_name = _("directive set")
        verbose_name_plural = _("directive sets")
