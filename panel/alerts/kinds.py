"""Alerts as data: what needs attention, and the page with the solution."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass

from django.utils.translation import gettext_lazy

from panel.accounts.models import User
from panel.core.ui import Text

# Kinds of objects that an alert can be about.
SUBJECTS: dict[str, Text] = {
    "certificate": gettext_lazy("Certificate"),
    "fpm_pool": gettext_lazy("PHP-FPM pool"),
    "host": gettext_lazy("Host"),
    "report": gettext_lazy("Report"),
    "rollout": gettext_lazy("Rollout"),
    "run": gettext_lazy("Benchmark run"),
    "server": gettext_lazy("Web server"),
    "site": gettext_lazy("Site"),
    "virtual_address": gettext_lazy("Virtual address"),
}


@dataclass(frozen=True)
class Alert:
    """One alert: `status` selects its appearance, `subject` is the kind of the object `title`, `url` leads to the
    solution.
    """

    status: str
    label: Text
    subject: str  # of SUBJECTS
    title: str
    detail: Text
    url: str
    at: dt.datetime | None = None
    step: str = ""  # of an alert that is repeated as it gets more urgent

    @property
    def kind(self) -> Text:
        return SUBJECTS[self.subject]

    @property
    def key(self) -> str:
        """Key that stays the same while the same alert about the same object exists, at the same step."""
        return f"{self.status} {self.url} {self.step}".rstrip()

    @property
    def begins(self) -> str:
        """The beginning of the keys of all its steps."""
        return f"{self.status} {self.url}"


Source = Callable[[User, int], list[Alert]]
