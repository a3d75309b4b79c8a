"""Shared settings of a team: access lists, header sets, directive sets."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.models import BaseModel
from panel.hosts.models import Engine
from panel.websites import rules, shapes, validators


class SharedSetting(BaseModel):
    """A setting under a name, which the sites of its team use by writing `@name`. `slug` is the name of the kind of
    setting.
    """

    slug: ClassVar[str]

    name = models.SlugField(max_length=63, unique=True, validators=[validators.validate_slug])
    team = models.ForeignKey(Team, on_delete=models.PROTECT)

    class Meta:
        abstract = True
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class AccessList(SharedSetting):
    """Addresses and networks under a name, which access rules use by writing `@name`."""

    slug = "access-list"

    sources = models.JSONField(validators=[shapes.validate_access_list])  # ["192.0.2.7", "10.0.0.0/8"]

    class Meta(SharedSetting.Meta):
        verbose_name = _("access list")
        verbose_name_plural = _("access lists")


class HeaderSet(SharedSetting):
    """Response headers under a name, which server blocks and locations use by writing `@name`."""

    slug = "header-set"

    headers = models.JSONField(validators=[shapes.validate_header_set])  # [{"name", "value", "always": true}]

    class Meta(SharedSetting.Meta):
        verbose_name = _("header set")
        verbose_name_plural = _("header sets")

    def clean(self) -> None:
        rules.check_header_set(self)


class DirectiveSet(SharedSetting):
    """Raw directives under a name, which the raw directives of sites include by writing `@name`. Only administrators
    edit directive sets.
    """

    slug = "directive-set"

    engine = models.CharField(max_length=16, choices=Engine.choices)
    text = models.TextField(validators=[shapes.validate_directive_set])

    class Meta(SharedSetting.Meta):
        verbose_name = _("directive set")
        verbose_name_plural = _("directive sets")
