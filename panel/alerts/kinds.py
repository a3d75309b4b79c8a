"""The data class `Alert`: a problem that needs attention, with the page that helps to solve it."""

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
    """A problem that needs attention.
    `status` selects the appearance of the alert. `title` is the name of the object with the problem, `subject` the kind
    of this object. `url` is the page that helps to solve the problem.
    """

    status: str
    label: Text
    subject: str  # of SUBJECTS
    title: str
    detail: Text
    url: str
    at: dt.datetime | None = None
    step: str = ""  # step of an alert that is repeated as it gets more urgent

    @property
    def kind(self) -> Text:
        return SUBJECTS[self.subject]

    @property
    def key(self) -> str:
        """Key that identifies the alert in the record of mailed alerts. A more urgent alert (another `step`) has
        another key.
        """
        return f"{self.status} {self.url} {self.step}".rstrip()

    @property
    def begins(self) -> str:
        """The key of the alert without its `step`. It stays the same when the alert becomes more urgent."""
        return f"{self.status} {self.url}"


Source = Callable[[User, int], list[Alert]]
