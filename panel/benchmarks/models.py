"""Models of scenarios, suite runs, runs and rounds, with all data needed to judge or repeat a measurement."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.accounts.validators import validate_line
from panel.benchmarks.choices import Tool
from panel.benchmarks.suites.choosing import Choice, stored_choice
from panel.benchmarks.tools.arguments import ArgumentError, clean, clean_paths
from panel.core.jobs import Job
from panel.core.models import BaseModel
from panel.deployments.models import Revision
from panel.hosts.models import Host, WebServer
from panel.websites.models import Site

# A round limited by time ends by itself; after this time it counts as hanging.
SPARE_S = 5


class Scenario(BaseModel):
    """The load of a benchmark. The load tool's definition validates `arguments` (benchmarks/tools): requests,
    concurrency, threads, streams, duration_s, keepalive, protocol; never a free-form command line.
    """

    name = models.CharField(max_length=120, unique=True, validators=[validate_line])
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="scenarios")
    tool = models.CharField(max_length=8, choices=Tool.choices)
    arguments = models.JSONField(default=dict)
    paths = models.JSONField(default=list)  # URL paths on the target sites, each beginning with /
    rounds = models.PositiveIntegerField(default=3, validators=[MinValueValidator(1), MaxValueValidator(100)])
    warmup_s = models.PositiveIntegerField(default=2, validators=[MaxValueValidator(600)])
    timeout_s = models.PositiveIntegerField(default=120, validators=[MinValueValidator(1), MaxValueValidator(3600)])
    allowed_error_percent = models.FloatField(default=0.0, validators=[MinValueValidator(0), MaxValueValidator(100)])

    # Set for a replay with other methods: `paths` may hold "POST /path". Never stored, because the whole team may run
    # stored scenarios on any of its sites, so they send GET.
    keeps_methods = False

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Check that the load tool's command line can be built from the arguments and paths. Forms and the API call
        this method.
        """
        found: dict[str, list[ValidationError]] = {}
        try:
            self.arguments = clean(self.tool, self.arguments)
        except ArgumentError as error:
            found["arguments"] = [
                ValidationError(f"{name}: {words}" if name else words, code="invalid", params={"field": name})
                for name, words in error.errors.items()
            ]
        try:
            self.paths = clean_paths(self.tool, self.paths, with_methods=self.keeps_methods)
        except ArgumentError as error:
            found["paths"] = [ValidationError(words) for words in error.errors.values()]
        seconds = self.arguments.get("duration_s") if isinstance(self.arguments, dict) else None
        if isinstance(seconds, int) and isinstance(self.timeout_s, int) and self.timeout_s < seconds + SPARE_S:
            found["timeout_s"] = [
                ValidationError(f"A round of {seconds} s needs a time limit of at least {seconds + SPARE_S} s.")
            ]
        if found:
            raise ValidationError(found)


class SuiteStatus(models.TextChoices):
    RUNNING = "running", _("Running")
    FINISHED = "finished", _("Finished")  # every case has ended, whatever its result
    CANCELLED = "cancelled", _("Cancelled")


class SuiteRun(BaseModel):
    """One execution of a published benchmark on one host. Its cases become runs, one after the other; `position` is the
    number of cases that were started.
    """

    uuid = models.UUIDField(default=uuid4, unique=True, editable=False)
    suite = models.CharField(max_length=40)
    preset = models.CharField(max_length=8)
    host = models.ForeignKey(Host, null=True, on_delete=models.SET_NULL, related_name="+")
    host_name = models.CharField(max_length=63)
    title = models.CharField(max_length=200)
    plan = models.JSONField()  # the frozen cases, suites/definitions.py Case.stored()
    setups = models.JSONField(default=list)  # [{"slug", "label", "web_server", "protocols"}]
    left_out = models.JSONField(default=list)  # reasons for missing configurations of the suite, in words
    chosen = models.JSONField(default=dict, blank=True)  # the chosen part: suites/choosing.py Choice.stored()
    position = models.PositiveIntegerField(default=0)
    status = models.CharField(max_length=12, choices=SuiteStatus.choices, default=SuiteStatus.RUNNING, db_index=True)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.title

    @property
    def is_ended(self) -> bool:
        return self.status != SuiteStatus.RUNNING

    @property
    def choice(self) -> Choice:
        return stored_choice(self.chosen)


class RunStatus(models.TextChoices):
    QUEUED = "queued", _("Queued")
    RUNNING = "running", _("Running")
    FINISHED = "finished", _("Finished")
    INVALID = "invalid", _("Invalid")  # finished but unreliable; `reasons` explain why
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


ENDED = (RunStatus.FINISHED, RunStatus.INVALID, RunStatus.FAILED, RunStatus.CANCELLED)


class Run(Job):
    time_limit = timedelta(hours=48)  # the rounds of a long scenario on many sites

    scenario = models.ForeignKey(Scenario, null=True, on_delete=models.SET_NULL, related_name="runs")
    suite_run = models.ForeignKey(SuiteRun, null=True, blank=True, on_delete=models.CASCADE, related_name="runs")
    case = models.PositiveIntegerField(null=True, blank=True)  # index in the suite's plan
    title = models.CharField(max_length=200)
    parameters = models.JSONField()  # the frozen scenario; for a suite, with "testbed": the definition of its test bed
    status = models.CharField(max_length=12, choices=RunStatus.choices, default=RunStatus.QUEUED, db_index=True)
    reasons = models.JSONField(default=list)  # why the run is invalid, in words
    # kernel, CPUs, tool version; per target: server, version, content; per test bed: the agents' data to find out what
    # is left
    fingerprint = models.JSONField(default=dict)
    summary = models.JSONField(default=dict)  # statistics of the rounds, stored for lists

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [models.UniqueConstraint(fields=["suite_run", "case"], name="benchmarks_run_once_per_case")]

    def __str__(self) -> str:
        return self.title

    @property
    def is_ended(self) -> bool:
        return self.status in ENDED


class RunTarget(models.Model):
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="targets")
    position = models.PositiveIntegerField()
    site = models.ForeignKey(Site, null=True, on_delete=models.SET_NULL, related_name="+")
    web_server = models.ForeignKey(WebServer, null=True, on_delete=models.SET_NULL, related_name="+")
    revision = models.ForeignKey(Revision, null=True, on_delete=models.SET_NULL, related_name="+")
    label = models.CharField(max_length=200)
    base_url = models.CharField(max_length=300)
    engine = models.CharField(max_length=16)
    setup = models.CharField(max_length=40, blank=True)  # the configuration of the suite

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["run", "position"], name="benchmarks_target_position")]

    def __str__(self) -> str:
        return self.label

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the target. Raises ValueError for a new target unless Paddock manages its host.
        A new target must be a deployed site, or a configuration of a web server in a test bed, so that Paddock sends
        load only to managed hosts.
        """
        if self._state.adding:
            is_site = self.site_id is not None and self.revision_id is not None
            is_setup = bool(self.setup) and self.web_server_id is not None and "testbed" in self.run.parameters
            if not (is_site or is_setup):
                raise ValueError("a benchmark target is either a deployed site or an instance on a managed host")
        super().save(*args, **kwargs)


class Round(models.Model):
    """One execution of the load tool on one target. Warm-up rounds (number 0) are stored but not evaluated."""

    target = models.ForeignKey(RunTarget, on_delete=models.CASCADE, related_name="rounds")
    number = models.PositiveIntegerField()  # 0: warm-up
    argv = models.JSONField(default=list)
    exit_code = models.IntegerField(null=True)
    output = models.TextField(blank=True)  # complete output of the tool
    metrics = models.JSONField(default=dict)  # parsed; benchmarks/parsers defines formats and units
    samples = models.JSONField(default=dict)  # {"server": [[t_s, cpu_percent, rss_bytes], ...], "application", "tool"}
    error = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["number", "target__position"]
        constraints = [models.UniqueConstraint(fields=["target", "number"], name="benchmarks_round_number")]

    def __str__(self) -> str:
        return f"{self.target.label}, round {self.number}"
