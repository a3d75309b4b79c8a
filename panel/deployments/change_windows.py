"""Times at which hosts may be changed: weekly windows, and freezes."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.dates import WEEKDAYS
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.accounts.validators import validate_timezone
from panel.core.models import BaseModel
from panel.core.tags import TagsField
from panel.deployments.windows.times import Freeze, Weekly


class ChangeWindow(BaseModel):
    """A weekly window in which hosts with all of `tags` may be changed, or a freeze, during which they must not be
    changed.

    Without tags, the window or freeze applies to all hosts. A host with weekly windows is changed only in one of them.
    A freeze lasts from `begins_at` to `ends_at`.
    """

    class Kind(models.TextChoices):
        WEEKLY = "weekly", gettext_lazy("Weekly window for changes")
        FREEZE = "freeze", gettext_lazy("Freeze: no changes")

    name = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=8, choices=Kind.choices)
    tags = TagsField()
    weekdays = models.JSONField(default=list, blank=True)  # [0, 6]: Monday and Sunday
    opens_at = models.TimeField(null=True, blank=True)
    closes_at = models.TimeField(null=True, blank=True)  # before opens_at: on the next day
    zone = models.CharField(  # IANA name, of a weekly window
        max_length=64, default="UTC", validators=[validate_timezone]
    )
    begins_at = models.DateTimeField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.kind == self.Kind.FREEZE:
            if self.begins_at is None or self.ends_at is None or self.ends_at <= self.begins_at:
                raise ValidationError({"ends_at": _("Enter the beginning of the freeze and a later end.")})
            return
        if self.opens_at is None or self.closes_at is None or self.opens_at == self.closes_at:
            raise ValidationError({"closes_at": _("Enter a closing time that differs from the opening time.")})
        if not isinstance(self.weekdays, list) or not self.weekdays or not set(self.weekdays) <= set(range(7)):
            raise ValidationError({"weekdays": _("Choose at least one day of the week.")})

    @property
    def words(self) -> str:
        """Describe the times of the window or freeze in one translated sentence, for pages."""
        if self.kind == self.Kind.FREEZE:
            moments = {"begins": self.begins_at, "ends": self.ends_at}
            shown = {name: date_format(localtime(moment), "DATETIME_FORMAT") for name, moment in moments.items()}
            return _("No changes from %(begins)s to %(ends)s") % shown
        days = ", ".join(str(WEEKDAYS[day]) for day in sorted(self.weekdays))
        hours = {"opens": f"{self.opens_at:%H:%M}", "closes": f"{self.closes_at:%H:%M}"}
        return _("%(days)s from %(opens)s to %(closes)s, %(zone)s") % {"days": days, "zone": self.zone, **hours}

    @property
    def times(self) -> Weekly | Freeze:
        if self.kind == self.Kind.FREEZE:
            assert self.begins_at is not None and self.ends_at is not None
            return Freeze(self.begins_at, self.ends_at)
        assert self.opens_at is not None and self.closes_at is not None
        return Weekly(tuple(sorted(self.weekdays)), self.opens_at, self.closes_at, self.zone)
