"""Models of rendered revisions, deployments with their steps, and the live state of sites."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from panel.core.fields import EncryptedTextField
from panel.core.jobs import Job
from panel.core.models import BaseModel
from panel.deployments.change_windows import ChangeWindow as ChangeWindow
from panel.deployments.domain_names.records import NameWatch as NameWatch
from panel.deployments.drift.records import Drift as Drift
from panel.deployments.drift.records import DriftResolution as DriftResolution
from panel.deployments.fields import PlanField
from panel.deployments.health_changes import Health as Health
from panel.deployments.health_changes import HealthChange as HealthChange
from panel.deployments.plan import PLAN_FORMAT, Plan
from panel.deployments.site_status import DEPLOYED as DEPLOYED
from panel.deployments.site_status import SiteStatus as SiteStatus
from panel.hosts.models import Host, WebServer
from panel.websites.models import Site


class Blob(models.Model):
    """Content of a rendered file, stored once under its SHA-256. Private keys are marked and never displayed."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    content = EncryptedTextField()
    is_secret = models.BooleanField(default=False)
    size = models.PositiveIntegerField()
    ends_at = models.DateTimeField(null=True)  # of a certificate

    def __str__(self) -> str:
        return self.sha256[:12]


class Revision(models.Model):
    """One configuration of a site, with the files rendered for one web server; never changed.

    `spec` is the frozen SiteSpec as JSON, `files` a list of {path, mode, sha256, secret, link}; `digest` is the SHA-256
    of that list, so equal renderings share one revision.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    web_server = models.ForeignKey(WebServer, on_delete=models.PROTECT, related_name="revisions")
    spec = models.JSONField()
    files = models.JSONField()
    digest = models.CharField(max_length=64)
    # end of the first certificate of the panel to expire among its files; null without one, or before this was recorded
    certificate_ends_at = models.DateTimeField(null=True, db_index=True)
    # end of the first list that revokes certificates of clients; every client is refused from then on
    revocations_end_at = models.DateTimeField(null=True, db_index=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["site", "number"], name="deployments_revision_number"),
            models.UniqueConstraint(fields=["site", "web_server", "digest"], name="deployments_revision_digest"),
        ]

    def __str__(self) -> str:
        return f"{self.site.name} #{self.number}"


class DeploymentStatus(models.TextChoices):
    PLANNED = "planned", _("Planned")  # shown, waiting for confirmation
    QUEUED = "queued", _("Queued")
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Deployed")
    ROLLED_BACK = "rolled_back", _("Rolled back")  # refused by the server, or a site got worse; previous state verified
    FAILED = "failed", _("Failed")  # the host could not be reached, or its previous state not be restored
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
    CERTIFICATE = "certificate", _("Renew certificates")  # the live revisions with other certificate files
    MAINTENANCE = "maintenance", _("Maintenance")  # the live revisions with or without a maintenance page
    MAIN = "main", _("Change the main file")  # of a distribution's nginx; belongs to no site


class OnSuccess(models.TextChoices):
    """Further changes in the panel after a successful deployment."""

    NOTHING = "", _("Nothing else")
    DISABLE = "disable", _("The sites are disabled")
    DELETE = "delete", _("The sites are deleted with their history")
    MOVE = "move", _("The sites belong to the target web server")
    MAIN = "main", _("The main file of the target web server is recorded")


class Deployment(Job):
    """One transaction on one host: the sites in `items`, tested, switched and reloaded together.

    A change on several hosts is several deployments with the same `batch`.
    """

    claimable = models.Q(plan_format__lte=PLAN_FORMAT)
    batch = models.UUIDField(default=uuid4, db_index=True, editable=False)
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="deployments")
    kind = models.CharField(max_length=12, choices=DeploymentKind.choices, default=DeploymentKind.DEPLOY)
    status = models.CharField(
        max_length=12, choices=DeploymentStatus.choices, default=DeploymentStatus.PLANNED, db_index=True
    )
    plan = PlanField(default=Plan)
    plan_format = models.PositiveSmallIntegerField(default=PLAN_FORMAT, db_default=1, editable=False)
    on_success = models.CharField(max_length=8, choices=OnSuccess.choices, default=OnSuccess.NOTHING, blank=True)
    # the web server that the sites move to, or whose main file changes
    target = models.ForeignKey(WebServer, null=True, on_delete=models.SET_NULL, related_name="+")
    # the deployment that must succeed before this one starts: the other half of a move between hosts
    waits_for = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="followers")
    # deployments.comparing: responses of adopted sites before and after
    comparison = models.JSONField(null=True, default=None)
    # whether its sites may respond worse than before; set at the confirmation
    anyway = models.BooleanField(default=False, db_default=False)
    # requests to its sites before and after (agents/host/checking.py), and the problems they showed in one sentence
    checks = models.JSONField(default=list, db_default=[])
    observation = models.TextField(blank=True, default="", db_default="")
    is_verified = models.BooleanField(default=False, db_default=False)  # every site was observed to be right
    # the newest plan of its kind and sites, which took its place before it was confirmed (planning/superseding.py)
    superseded_by = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    confirmed_at = models.DateTimeField(null=True)
    # the transaction on the host that this deployment was carried out in with others (execution/joining.py)
    joined_as = models.UUIDField(null=True, db_index=True, editable=False)
    # the joined transaction did not succeed
    runs_alone = models.BooleanField(default=False, db_default=False, editable=False)

    class Meta:
        ordering = ["-created_at", "-pk"]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="deployments_newest"),
            models.Index(fields=["finished_at"], name="deployments_finished"),
        ]

    def __str__(self) -> str:
        # Every audit entry uses this name; get_status_display() would be twenty times slower.
        return f"{self.title} ({DeploymentStatus(self.status).label})"

    @property
    def is_finished(self) -> bool:
        return self.status in TERMINAL

    @property
    def kind_words(self) -> str:
        """Name of the whole batch's purpose, for pages: "Delete" if the sites are removed in order to delete them."""
        return gettext("Delete") if self.on_success == OnSuccess.DELETE else str(DeploymentKind(self.kind).label)

    @property
    def part_words(self) -> str:
        """Name of this deployment's purpose, for pages. The deployments of a move have different purposes, for example
        removal from the old host.
        """
        if self._takes_off_for_a_move:
            return gettext("Move: remove from the old host")
        if self.kind == DeploymentKind.MOVE and any(line.comes_from_elsewhere for line in self.plan.sites):
            return gettext("Move: deploy")
        return self.kind_words

    @property
    def title(self) -> str:
        """Name of the deployment in lists and page headings: purpose and host."""
        if self._takes_off_for_a_move:
            return gettext("Move: remove from %(host)s") % {"host": self.host.name}
        return gettext("%(kind)s on %(host)s") % {"kind": self.part_words, "host": self.host.name}

    @property
    def _takes_off_for_a_move(self) -> bool:
        """True if the deployment only removes sites as part of a move: its second half, or the whole move of disabled
        sites.
        """
        sites = self.plan.sites
        return self.kind == DeploymentKind.MOVE and bool(sites) and all(line.number is None for line in sites)

    @property
    def disables(self) -> bool:
        """True if confirming the plan disables its sites."""
        return self.on_success in (OnSuccess.DISABLE, OnSuccess.DELETE)

    @property
    def status_words(self) -> str:
        """Status for pages: *Replaced* if a newer plan took its place, *Verified* if all sites respond as expected."""
        if self.superseded_by_id:
            return gettext("Replaced")
        if self.status == DeploymentStatus.PLANNED and self.confirmed_at is not None:
            return gettext("Waiting")
        if self.status == DeploymentStatus.SUCCEEDED:
            removes = self.kind == DeploymentKind.DISABLE or self._takes_off_for_a_move
            return gettext("Verified") if self.is_verified else gettext("Done") if removes else gettext("Deployed")
        return str(DeploymentStatus(self.status).label)


class DeploymentItem(models.Model):
    """One site in a deployment.

    `revision` is null if the deployment removes the site from the host or disables the site. `disabled_after`: the
    revision whose files stay on the host while the site is disabled. `disabled_before`: the same before the deployment,
    if the site was disabled then. `version`: the version of the draft that the deployment makes live, null if the draft
    differs from the revision.
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="items")
    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="deployment_items")
    revision = models.ForeignKey(Revision, null=True, on_delete=models.PROTECT, related_name="+")
    previous = models.ForeignKey(Revision, null=True, on_delete=models.SET_NULL, related_name="+")
    disabled_after = models.ForeignKey(Revision, null=True, on_delete=models.PROTECT, related_name="+")
    disabled_before = models.ForeignKey(Revision, null=True, on_delete=models.SET_NULL, related_name="+")
    version = models.PositiveIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["deployment", "site"], name="deployments_site_once")]

    def __str__(self) -> str:
        return f"{self.site.name} in deployment {self.deployment_id}"


class StepStatus(models.TextChoices):
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Done")
    FAILED = "failed", _("Failed")
    SKIPPED = "skipped", _("Skipped")


# Names for people of the agent's steps (agents/protocol.py), and of those for pools (execution/pools.py).
STEP_WORDS = {
    "pool": _("Create the PHP pool"),
    "undo_pool": _("Remove the PHP pool"),
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
    """One step of a deployment on its host, with its argv, exit code and verbatim output."""

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


class SiteState(models.Model):
    """Current state of a site on a host; only deployments, drift checks and health checks of live sites write it."""

    site = models.OneToOneField(Site, on_delete=models.CASCADE, related_name="state")
    status = models.CharField(max_length=12, choices=SiteStatus.choices, default=SiteStatus.DRAFT, db_index=True)
    revision = models.ForeignKey(Revision, null=True, on_delete=models.PROTECT, related_name="+")
    # revision of a disabled site whose files are still on the host, not loaded by the server (disabled_files.py)
    disabled_revision = models.ForeignKey(Revision, null=True, on_delete=models.PROTECT, related_name="+")
    # the version of the draft (Site.version) that is live; null: an earlier revision, which differs from the draft
    live_version = models.PositiveIntegerField(null=True)
    deployed_at = models.DateTimeField(null=True)
    # whether the site responds: independent of what is deployed, with separate times (deployments/health.py)
    health = models.CharField(max_length=12, choices=Health.choices, default=Health.UNKNOWN, blank=True, db_default="")
    health_words = models.TextField(blank=True, default="", db_default="")  # what was observed last
    health_at = models.DateTimeField(null=True)  # time of the last observation
    health_since = models.DateTimeField(null=True)  # beginning of the present health
    # the same as observed by the panel, which sends requests as visitors do (deployments/watching)
    reach = models.CharField(max_length=12, choices=Health.choices, default=Health.UNKNOWN, blank=True, db_default="")
    reach_words = models.TextField(blank=True, default="", db_default="")
    reach_at = models.DateTimeField(null=True)
    reach_since = models.DateTimeField(null=True)
    last_failure = models.ForeignKey(Deployment, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        indexes = [
            # Without the times of observations, so that the watch, which writes them each minute, changes no index.
            models.Index(
                fields=["site"],
                name="deployments_failing_sites",
                condition=models.Q(health=Health.FAILING) | models.Q(reach=Health.FAILING),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.site.name}: {self.get_status_display()}"


class WebServerState(models.Model):
    """The deployed files of a web server that all its sites share, for example files with listeners and ports."""

    web_server = models.OneToOneField(WebServer, on_delete=models.CASCADE, related_name="state")
    files = models.JSONField(default=list)  # same format as Revision.files
    # the managed main file and the kept original, while the panel manages it (main_file/)
    main_files = models.JSONField(default=list)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"files of {self.web_server}"


class PinnedFile(BaseModel):
    """An adopted file: every later rendering of the site keeps the host's text at `path`, until `pin_release`."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="pinned_files")
    web_server = models.ForeignKey(WebServer, on_delete=models.CASCADE, related_name="+")
    path = models.TextField()
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    adopted_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["site", "web_server", "path"], name="deployments_pinned_once")]

    def __str__(self) -> str:
        return self.path


class ReplacedFile(models.Model):
    """A file of a host's original configuration from which sites were adopted.

    The first deployment of an adopted site removes the site's lines from the file, and removes the file if no
    directives remain (deployments/planning/replacing.py). `parts` is [{"first", "last", "sites": [id]}]: lines that are
    removed once all those sites are deployed; `done` holds the ids of deployed sites. `appends` is a line that the
    first deployment adds at the end, so that the server reads the panel's files.
    """

    web_server = models.ForeignKey(WebServer, on_delete=models.CASCADE, related_name="replaced_files")
    path = models.TextField()  # as named in the server's configuration
    real = models.TextField(blank=True)  # resolved path if `path` is a link
    link = models.TextField(blank=True)  # target of the link
    mode = models.PositiveIntegerField(default=0o644)
    original = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    parts = models.JSONField(default=list)
    done = models.JSONField(default=list)
    appends = models.TextField(blank=True, default="")
    adopted_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["path", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["web_server", "path", "original"], name="deployments_replaced_once")
        ]

    def __str__(self) -> str:
        return self.path
