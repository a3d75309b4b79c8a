"""Models of schedules, their dates, reports, and deliveries."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, validate_email
from django.db import models
from django.utils.translation import gettext as _

from panel.accounts.models import Team
from panel.accounts.validators import validate_line, validate_timezone
from panel.benchmarks.models import Run, Scenario, SuiteRun
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.choosing import Choice, check_setups, stored_choice
from panel.benchmarks.suites.definitions import PRESETS
from panel.core.errors import ApplicationError
from panel.core.fields import EncryptedTextField
from panel.core.jobs import Job
from panel.core.models import BaseModel
from panel.core.webhooks import check_url
from panel.hosts.models import Host
from panel.reports import cron
from panel.reports.choices import Channel, Form, Kind, Notify, OccurrenceStatus, Outcome, Overlap
from panel.websites.models import Site

MOST_RECIPIENTS = 20
LEAST_SECRET = 16


def validate_recipients(value: Any) -> None:
    if not isinstance(value, list) or len(value) > MOST_RECIPIENTS:
        raise ValidationError(_("Enter a list of at most %d email addresses.") % MOST_RECIPIENTS)
    for item in value:
        try:
            validate_email(item)
        except ValidationError as error:
            raise ValidationError(_("“%s” is not an email address.") % str(item)[:100]) from error


def validate_forms(value: Any) -> None:
    if not isinstance(value, list) or any(item not in Form.values for item in value) or len(set(value)) != len(value):
        raise ValidationError(_("Choose from these formats, each at most once: %s.") % ", ".join(Form.values))


def validate_url(value: str) -> None:
    try:
        check_url(value)
    except ApplicationError as error:
        raise ValidationError(error.message) from error


class Schedule(BaseModel):
    """A benchmark schedule with the recipients of its reports. Its runs have the current permissions of `run_as`, the
    user who saved the schedule last.
    """

    name = models.CharField(max_length=120, unique=True, validators=[validate_line])
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="schedules")
    cron = models.CharField(max_length=120)
    timezone = models.CharField(max_length=64, default="UTC", validators=[validate_timezone])
    kind = models.CharField(max_length=8, choices=Kind.choices)
    scenario = models.ForeignKey(Scenario, null=True, blank=True, on_delete=models.SET_NULL, related_name="schedules")
    suite = models.CharField(max_length=40, blank=True)
    preset = models.CharField(max_length=8, blank=True)
    # Chosen part of the suite: suites/choosing.py Choice.stored(), and "setups", empty for all.
    chosen = models.JSONField(default=dict, blank=True)
    host = models.ForeignKey(Host, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    overlap = models.CharField(max_length=8, choices=Overlap.choices, default=Overlap.SKIP)
    # Maximum delay of a date in minutes; after that it is missed.
    grace_minutes = models.PositiveIntegerField(
        default=60, validators=[MinValueValidator(1), MaxValueValidator(7 * 24 * 60)]
    )
    notify = models.CharField(max_length=8, choices=Notify.choices, default=Notify.ALWAYS)
    recipients = models.JSONField(default=list, blank=True, validators=[validate_recipients])
    attachments = models.JSONField(default=list, blank=True, validators=[validate_forms])
    webhook_url = models.CharField(max_length=500, blank=True, validators=[validate_url])
    webhook_secret = EncryptedTextField(blank=True, default="")
    keep_reports = models.PositiveIntegerField(
        null=True, blank=True, default=100, validators=[MinValueValidator(1), MaxValueValidator(10_000)]
    )
    keep_days = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(3650)]
    )
    is_paused = models.BooleanField(default=False)
    next_due_at = models.DateTimeField(null=True, blank=True, editable=False, db_index=True)
    run_as = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, editable=False, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        found: dict[str, list[str]] = {}
        try:
            self.cron = cron.normal(self.cron)
        except ApplicationError as error:
            found["cron"] = [error.message]
        if self.kind == Kind.SCENARIO:
            self.suite, self.preset, self.chosen, self.host = "", "", {}, None
            if self.scenario is None:
                found["scenario"] = [_("Choose the scenario to run.")]
        else:
            self._clean_suite(found)
        if self.webhook_url and len(self.webhook_secret) < LEAST_SECRET:
            words = _("Paddock signs webhooks with a secret. Enter a secret of at least %d characters.")
            found["webhook_secret"] = [words % LEAST_SECRET]
        if found:
            raise ValidationError({name: list(words) for name, words in found.items()})

    def _clean_suite(self, found: dict[str, list[str]]) -> None:
        self.scenario = None
        if self.suite not in SUITES:
            found["suite"] = [_("Choose a suite: %s.") % ", ".join(SUITES)]
        if self.preset not in PRESETS:
            found["preset"] = [_("Choose a preset: %s.") % ", ".join(PRESETS)]
        if self.host is None:
            found["host"] = [_("Choose the host to run the suite on.")]
        if "suite" not in found and "preset" not in found:
            try:
                check_setups(SUITES[self.suite], self.setups)
                self.choice.of(SUITES[self.suite], PRESETS[PRESETS.index(self.preset)])
            except ApplicationError as error:
                found["chosen"] = [error.message]

    @property
    def choice(self) -> Choice:
        return stored_choice(self.chosen)

    @property
    def setups(self) -> list[str]:
        return list(self.chosen.get("setups", []))


class ScheduleSite(models.Model):
    """A site in the schedule of a scenario. The first site is the baseline. `site` is null if the site was deleted."""

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="sites")
    position = models.PositiveIntegerField()
    site = models.ForeignKey(Site, null=True, on_delete=models.SET_NULL, related_name="+")
    name = models.CharField(max_length=63)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["schedule", "position"], name="reports_schedule_position")]

    def __str__(self) -> str:
        return self.name


class Occurrence(models.Model):
    """One date of a schedule and its result. Consecutive missed dates share one row: `dates` is their number, and
    `due_at` the last of them.
    """

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="occurrences")
    due_at = models.DateTimeField()
    dates = models.PositiveIntegerField(default=1)
    by_hand = models.BooleanField(default=False)
    status = models.CharField(max_length=8, choices=OccurrenceStatus.choices, db_index=True)
    reason = models.TextField(blank=True)  # why the date was missed, skipped or failed to start; or why it started late
    run = models.OneToOneField(Run, null=True, on_delete=models.SET_NULL, related_name="occurrence")
    suite_run = models.OneToOneField(SuiteRun, null=True, on_delete=models.SET_NULL, related_name="occurrence")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-due_at", "-pk"]
        constraints = [models.UniqueConstraint(fields=["schedule", "due_at"], name="reports_date_once")]

    def __str__(self) -> str:
        return f"{self.schedule}, {self.due_at:%Y-%m-%d %H:%M}"


class Report(BaseModel):
    """A report: `content` is a Document (document.py), from which all formats are made. Reports remain if their run is
    deleted.
    """

    uuid = models.UUIDField(default=uuid4, unique=True, editable=False)
    schedule = models.ForeignKey(Schedule, null=True, on_delete=models.SET_NULL, related_name="reports")
    occurrence = models.OneToOneField(Occurrence, null=True, on_delete=models.SET_NULL, related_name="report")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="reports")
    suite_run = models.ForeignKey(SuiteRun, null=True, on_delete=models.SET_NULL, related_name="reports")
    team = models.ForeignKey(Team, null=True, on_delete=models.SET_NULL, related_name="+")  # of the schedule
    teams = models.ManyToManyField(Team, related_name="reports")  # of the sites in the report
    # Without teams only administrators can see it, because the owners of its sites are unknown.
    about_sites = models.BooleanField(default=True)
    title = models.CharField(max_length=200)
    outcome = models.CharField(max_length=16, choices=Outcome.choices, db_index=True)
    headline = models.TextField()
    content = models.JSONField()

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.title


class Delivery(Job):
    """Delivery of a report to one receiver, with the number of its `attempts` and their `log`."""

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="deliveries")
    channel = models.CharField(max_length=8, choices=Channel.choices)
    target = models.CharField(max_length=500)  # a mail address, or the webhook's URL
    attempts = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField()
    log = models.JSONField(default=list)  # [{"at": ISO time, "words", "seconds"}]

    class Meta:
        ordering = ["pk"]
        verbose_name_plural = "deliveries"

    def __str__(self) -> str:
        return f"{self.report} to {self.target}"


class Watch(models.Model):
    """Time at which schedules were last checked, in one row. A gap means that the panel was not running."""

    looked_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.looked_at:%Y-%m-%d %H:%M:%S}"
