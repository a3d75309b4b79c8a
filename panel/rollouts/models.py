"""Models of rollouts: a confirmed batch of deployments in waves of hosts; each wave is judged before the next."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from panel.core.errors import ApplicationError
from panel.core.fields import EncryptedTextField
from panel.core.jobs import Job
from panel.core.webhooks import check_url
from panel.deployments.models import Deployment
from panel.rollouts.choices import UNDER_WAY, RolloutStatus, WaveStatus, Wish

MOST_SOAK_S = 7 * 86_400


def check_hook(value: str) -> None:
    try:
        check_url(value)
    except ApplicationError as error:
        raise ValidationError(error.message) from error


class Rollout(Job):
    """Job that carries out the deployments of `batch` in waves.

    `next_at` is the time of the next step. `error` is the reason of a failed gate (a check of a wave) or of a
    pause, or names the hosts that could not be rolled back.
    """

    batch = models.UUIDField(unique=True, editable=False)
    status = models.CharField(max_length=12, choices=RolloutStatus.choices, default=RolloutStatus.QUEUED, db_index=True)
    soak_s = models.PositiveIntegerField(default=300, validators=[MaxValueValidator(MOST_SOAK_S)])
    # percentage points of 5xx responses that a wave may have above its baseline
    most_errors = models.FloatField(default=1.0, validators=[MinValueValidator(0), MaxValueValidator(100)])
    # percent by which the 99th percentile of the response times may grow
    most_slower = models.PositiveIntegerField(default=100, validators=[MaxValueValidator(10_000)])
    hook_url = EncryptedTextField(blank=True, default="", validators=[check_hook])
    needs_approval = models.BooleanField(default=False)
    needs_other_person = models.BooleanField(default=False)  # the approver must not have started the rollout
    start_at = models.DateTimeField(null=True, blank=True)  # start of the first wave; null: at once
    wish = models.CharField(max_length=8, choices=Wish.choices, default=Wish.NONE, blank=True)
    is_undoing = models.BooleanField(default=False)
    next_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"rollout {str(self.uuid)[:8]}"

    @property
    def is_finished(self) -> bool:
        return self.status not in UNDER_WAY


class Wave(models.Model):
    """Hosts of a rollout that are deployed together.

    `evidence` lists the results of the gates (checks of the wave) as {gate, passed, words, at}; `passed` is null
    for a gate that could not judge. `failing` are the sites that failed before the wave was observed.
    """

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="waves")
    position = models.PositiveIntegerField()
    status = models.CharField(max_length=12, choices=WaveStatus.choices, default=WaveStatus.WAITING)
    evidence = models.JSONField(default=list)
    failing = models.JSONField(default=list)
    started_at = models.DateTimeField(null=True)
    deployed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    approved_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    approved_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["rollout", "position"], name="rollouts_wave_position")]

    def __str__(self) -> str:
        return f"wave {self.position}"


class Part(models.Model):
    """One host of a wave: its deployment, and the deployment `undo` that rolls it back."""

    wave = models.ForeignKey(Wave, on_delete=models.CASCADE, related_name="parts")
    deployment = models.OneToOneField(Deployment, on_delete=models.CASCADE, related_name="rollout_part")
    undo = models.ForeignKey(Deployment, null=True, on_delete=models.SET_NULL, related_name="+")
    # reason if the host was not rolled back although its deployment succeeded; otherwise ""
    kept = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.deployment.host.name} in {self.wave}"
