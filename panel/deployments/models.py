"""What was rendered, what was sent to hosts, what happened there, and what stands there now."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from panel.core.fields import EncryptedTextField
from panel.core.jobs import Job
from panel.core.models import BaseModel
from panel.deployments.fields import PlanField
from panel.deployments.plan import Plan
from panel.hosts.models import EngineInstall, Host
from panel.websites.models import Site


class Blob(models.Model):
    """The content of a rendered file, stored once under its SHA-256. Private keys are marked and never shown."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    content = EncryptedTextField()
    is_secret = models.BooleanField(default=False)
    size = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.sha256[:12]


class Revision(models.Model):
    """A site as it was rendered for one server: immutable.

    `spec` is the frozen SiteSpec as JSON, `files` a list of {path, mode, sha256, secret, link}; `digest` is the
    SHA-256 of that list, so that equal renderings are the same revision.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    install = models.ForeignKey(EngineInstall, on_delete=models.PROTECT, related_name="revisions")
    spec = models.JSONField()
    files = models.JSONField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["site", "number"], name="deployments_revision_number"),
            models.UniqueConstraint(fields=["site", "install", "digest"], name="deployments_revision_digest"),
        ]

    def __str__(self) -> str:
        return f"{self.site.name} #{self.number}"


class DeploymentStatus(models.TextChoices):
    PLANNED = "planned", _("Planned")  # shown, waits to be confirmed
    QUEUED = "queued", _("Queued")
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Verified")
    ROLLED_BACK = "rolled_back", _("Rolled back")  # refused by the server or failed its probes; old state proven
    FAILED = "failed", _("Failed")  # the host could not be asked or could not be put back
    CANCELLED = "cancelled", _("Cancelled")


TERMINAL = {
    DeploymentStatus.SUCCEEDED,
    DeploymentStatus.ROLLED_BACK,
    DeploymentStatus.FAILED,
    DeploymentStatus.CANCELLED,
}


class DeploymentKind(models.TextChoices):
    DEPLOY = "deploy", _("Deploy")
    ROLLBACK = "rollback", _("Roll back to an earlier revision")
    DISABLE = "disable", _("Disable")
    MOVE = "move", _("Move to another web server")
    OVERWRITE = "overwrite", _("Overwrite drift")
    MAIN = "main", _("Change the main file")  # of a distribution's nginx; of no site


class OnSuccess(models.TextChoices):
    """What else changes in the panel when a deployment has succeeded."""

    NOTHING = "", _("Nothing else")
    DISABLE = "disable", _("The sites are disabled")
    DELETE = "delete", _("The sites are deleted with their history")
    MOVE = "move", _("The sites belong to the target web server")
    MAIN = "main", _("The main file of the target web server is recorded")


class Deployment(Job):
    """One transaction on one host: the sites in `items`, tested, switched and reloaded together.

    A change on several hosts is several deployments with the same `batch`.
    """

    batch = models.UUIDField(default=uuid4, db_index=True, editable=False)
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="deployments")
    kind = models.CharField(max_length=12, choices=DeploymentKind.choices, default=DeploymentKind.DEPLOY)
    status = models.CharField(
        max_length=12, choices=DeploymentStatus.choices, default=DeploymentStatus.PLANNED, db_index=True
    )
    plan = PlanField(default=Plan)
    on_success = models.CharField(max_length=8, choices=OnSuccess.choices, default=OnSuccess.NOTHING, blank=True)
    # the web server that the sites move to, or whose main file changes
    target = models.ForeignKey(EngineInstall, null=True, on_delete=models.SET_NULL, related_name="+")
    # the deployment that must succeed before this one starts: the other half of a move between hosts
    waits_for = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="followers")
    # deployments.comparing: what the adopted sites answered before and after
    comparison = models.JSONField(null=True, default=None)
    # the newest plan of its kind and sites, which took its place before it was confirmed (planning/superseding.py)
    superseded_by = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    confirmed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        # Every entry of the audit is named by this; get_status_display() would cost twenty times as much.
        return f"{self.title} ({DeploymentStatus(self.status).label})"

    @property
    def is_finished(self) -> bool:
        return self.status in TERMINAL

    @property
    def kind_words(self) -> str:
        """For a reader, what the whole batch does: what is taken out of service to be forgotten is deleted."""
        return gettext("Delete") if self.on_success == OnSuccess.DELETE else str(DeploymentKind(self.kind).label)

    @property
    def part_words(self) -> str:
        """For a reader, what this one does: a move between hosts has a part on each of them."""
        if self._takes_off_for_a_move:
            return gettext("Move: remove")
        if self.kind == DeploymentKind.MOVE and any(line.comes_from_elsewhere for line in self.plan.sites):
            return gettext("Move: deploy")
        return self.kind_words

    @property
    def title(self) -> str:
        """For a reader, with the host: the name in lists, and the heading of its page."""
        if self._takes_off_for_a_move:
            return gettext("Move: remove from %(host)s") % {"host": self.host.name}
        return gettext("%(kind)s on %(host)s") % {"kind": self.part_words, "host": self.host.name}

    @property
    def _takes_off_for_a_move(self) -> bool:
        """The second half of a move, and all of it where the sites were disabled."""
        sites = self.plan.sites
        return self.kind == DeploymentKind.MOVE and bool(sites) and all(line.number is None for line in sites)

    @property
    def disables(self) -> bool:
        """Whether the sites are disabled from the moment of the confirmation."""
        return self.on_success in (OnSuccess.DISABLE, OnSuccess.DELETE)

    @property
    def status_words(self) -> str:
        """For a reader: a plan that a newer one took the place of was cancelled by nobody."""
        return gettext("Replaced") if self.superseded_by_id else str(DeploymentStatus(self.status).label)


class DeploymentItem(models.Model):
    """One site in a deployment; without a revision it is taken out of service, and off the host unless it `rests`
    there. `rested`: what lay there of it, disabled, before."""

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="items")
    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="deployment_items")
    revision = models.ForeignKey(Revision, null=True, on_delete=models.PROTECT, related_name="+")
    previous = models.ForeignKey(Revision, null=True, on_delete=models.SET_NULL, related_name="+")
    rests = models.ForeignKey(Revision, null=True, on_delete=models.PROTECT, related_name="+")
    rested = models.ForeignKey(Revision, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["deployment", "site"], name="deployments_site_once")]

    def __str__(self) -> str:
        return f"{self.site.name} in deployment {self.deployment_id}"


class StepStatus(models.TextChoices):
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Done")
    FAILED = "failed", _("Failed")
    SKIPPED = "skipped", _("Skipped")


# What the agent calls its steps (agents/protocol.py), in words for a person.
STEP_WORDS = {
    "lock": _("Wait for the host"),
    "check": _("Compare with the files on the host"),
    "journal": _("Prepare the rollback"),
    "stage": _("Upload the new files"),
    "test": _("Test the new configuration"),
    "switch": _("Switch to the new files"),
    "reload": _("Reload the web server"),
    "start": _("Start the web server"),
    "stop": _("Stop the web server"),
    "probe": _("Verify the sites"),
    "undo": _("Restore the previous files"),
    "prove": _("Verify the previous sites"),
}


class Step(models.Model):
    """One thing that the agent did, with its argv, exit code and verbatim output."""

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="steps")
    position = models.PositiveIntegerField()
    name = models.CharField(max_length=120)
    status = models.CharField(max_length=12, choices=StepStatus.choices)
    argv = models.JSONField(default=list)
    exit_code = models.IntegerField(null=True)
    output = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["deployment", "position"], name="deployments_step_position")]

    def __str__(self) -> str:
        return self.name

    @property
    def words(self) -> str:
        return str(STEP_WORDS.get(self.name, self.name))


class SiteStatus(models.TextChoices):
    DRAFT = "draft", _("Draft")  # never deployed
    LIVE = "live", _("Live")
    DISABLED = "disabled", _("Disabled")
    DRIFTED = "drifted", _("Drift")  # a managed file was edited on the host


class SiteState(models.Model):
    """What of a site stands on a host now; written only by deployments and drift checks."""

    site = models.OneToOneField(Site, on_delete=models.CASCADE, related_name="state")
    status = models.CharField(max_length=12, choices=SiteStatus.choices, default=SiteStatus.DRAFT, db_index=True)
    revision = models.ForeignKey(Revision, null=True, on_delete=models.PROTECT, related_name="+")
    # of a disabled site: whose files lie on its host still, where no server looks for them (planning/resting.py)
    resting = models.ForeignKey(Revision, null=True, on_delete=models.PROTECT, related_name="+")
    deployed_at = models.DateTimeField(null=True)
    last_failure = models.ForeignKey(Deployment, null=True, on_delete=models.SET_NULL, related_name="+")

    def __str__(self) -> str:
        return f"{self.site.name}: {self.get_status_display()}"


class InstallState(models.Model):
    """The files of a server that depend on all of its sites (listeners, ports), as they stand on the host now."""

    install = models.OneToOneField(EngineInstall, on_delete=models.CASCADE, related_name="state")
    files = models.JSONField(default=list)  # as Revision.files
    # the main file and the distribution's original beside it, while the panel's is in use (main_file/)
    main_files = models.JSONField(default=list)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"files of {self.install}"


class PinnedFile(BaseModel):
    """A hand edit that was adopted: every later rendering of the site has this text at `path`, until it is released."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="pinned_files")
    install = models.ForeignKey(EngineInstall, on_delete=models.CASCADE, related_name="+")
    path = models.TextField()
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    adopted_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["site", "install", "path"], name="deployments_pinned_once")]

    def __str__(self) -> str:
        return self.path


class ReplacedFile(models.Model):
    """A file of the host's own that sites were adopted from. The first deployment of each takes its lines away, and the
    file when nothing else is said in it (deployments/planning/replacing.py).

    `parts` is [{"first", "last", "sites": [id]}]: lines that go once all those sites are deployed; `done` the ids of
    those that are. `appends` is a line that the first of them adds at the end, so that the server reads the panel's.
    """

    install = models.ForeignKey(EngineInstall, on_delete=models.CASCADE, related_name="replaced_files")
    path = models.TextField()  # as the server's configuration names it
    real = models.TextField(blank=True)  # where it lies when `path` is a link
    link = models.TextField(blank=True)  # what the link holds
    mode = models.PositiveIntegerField(default=0o644)
    original = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    parts = models.JSONField(default=list)
    done = models.JSONField(default=list)
    appends = models.TextField(blank=True, default="")
    adopted_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["path", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["install", "path", "original"], name="deployments_replaced_once")
        ]

    def __str__(self) -> str:
        return self.path


class DriftResolution(models.TextChoices):
    OPEN = "", _("Open")
    ADOPTED = "adopted", _("Adopted")
    OVERWRITTEN = "overwritten", _("Overwritten")
    GONE = "gone", _("Restored on the host")


class Drift(models.Model):
    """A managed file that no longer holds what was deployed."""

    site = models.ForeignKey(  # null: a file of the server itself
        Site, null=True, on_delete=models.CASCADE, related_name="drifts"
    )
    install = models.ForeignKey(EngineInstall, on_delete=models.CASCADE, related_name="drifts")
    path = models.TextField()
    expected_sha256 = models.CharField(max_length=64)
    found_sha256 = models.CharField(max_length=64, blank=True)  # empty: the file is gone
    found = EncryptedTextField(blank=True, default="")
    diff = models.TextField(blank=True)
    detected_at = models.DateTimeField(auto_now_add=True)
    resolution = models.CharField(
        max_length=12, choices=DriftResolution.choices, default=DriftResolution.OPEN, blank=True
    )
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-detected_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["install", "path"], condition=models.Q(resolution=""), name="deployments_one_open_drift"
            )
        ]

    def __str__(self) -> str:
        return self.path
