"""Choices of schedules, reports and deliveries."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Kind(models.TextChoices):
    SCENARIO = "scenario", _("A scenario on sites")
    SUITE = "suite", _("A suite on a host")


PRESET_LABELS = {"short": _("Preview"), "full": _("Full suite")}


class Overlap(models.TextChoices):
    """Action of a schedule if its previous run is still in progress at the next date."""

    SKIP = "skip", _("Skip the run and record it")
    WAIT = "wait", _("Start the run afterwards")


class Notify(models.TextChoices):
    ALWAYS = "always", _("Every report")
    CHANGES = "changes", _("Only changes, failures, and missed runs")


class OccurrenceStatus(models.TextChoices):
    WAITING = "waiting", _("Waiting for the previous run")
    RUNNING = "running", _("Running")
    DONE = "finished", _("Reported")
    MISSED = "missed", _("Missed")
    SKIPPED = "skipped", _("Skipped")
    FAILED = "failed", _("Could not start")


OPEN = (OccurrenceStatus.WAITING, OccurrenceStatus.RUNNING)


class Outcome(models.TextChoices):
    """Main result of a report, for example that figures are worse than in the previous run."""

    FIRST = "first", _("First report")
    WORSE = "worse", _("Worse")
    BETTER = "better", _("Better")
    UNSURE = "unsure", _("Not significant yet")
    SAME = "no_difference", _("No significant difference")
    INVALID = "invalid", _("Not reliable")
    FAILED = "failed", _("Failed")


NOTEWORTHY = (Outcome.WORSE, Outcome.BETTER, Outcome.INVALID, Outcome.FAILED)


class Form(models.TextChoices):
    HTML = "html", "HTML"
    PDF = "pdf", "PDF"
    ODS = "ods", "ODS"
    CSV = "csv", "CSV"
    JSON = "json", "JSON"


class Channel(models.TextChoices):
    MAIL = "mail", _("Mail")
    WEBHOOK = "webhook", _("Webhook")
