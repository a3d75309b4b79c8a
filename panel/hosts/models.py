"""Models of hosts, their connections, and their web servers."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.fields import EncryptedTextField
from panel.core.jobs import Job
from panel.core.models import BaseModel
from panel.core.tags import TagsField
from panel.hosts import rules
from panel.hosts.validators import (
    validate_address,
    validate_listeners,
    validate_name,
    validate_ports,
    validate_site_roots,
    validate_unit,
    validate_username,
    validate_web_server_paths,
)


class Connection(models.TextChoices):
    LOCAL = "local", _("This host")  # the agent runs as a child process
    SSH = "ssh", _("SSH")


class HostStatus(models.TextChoices):
    NEW = "new", _("Not yet trusted")  # its host key must be confirmed
    READY = "ready", _("Ready")
    UNREACHABLE = "unreachable", _("Unreachable")
    KEY_CHANGED = "key_changed", _("Host key changed")  # nothing is sent until an administrator decides


class Layout(models.TextChoices):
    """File layout of sites below a web server's configuration folder, as the distribution's package sets it up."""

    CONF_D = "conf_d", _("conf.d/*.conf; disabled files end in .conf.disabled")
    SITES = "sites", _("sites-available with links in sites-enabled")
    VHOSTS = "vhosts", _("vhosts/NAME/vhconf.conf (OpenLiteSpeed)")


class Engine(models.TextChoices):
    NGINX = "nginx", "nginx"
    APACHE = "apache", "Apache httpd"
    OPENLITESPEED = "openlitespeed", "OpenLiteSpeed"
    NATIVE = "native", "gallop"


class Control(models.TextChoices):
    """Ways to start, reload and stop a web server."""

    DIRECT = "direct", _("Its own binary (-s reload, -k graceful)")
    SYSTEMD = "systemd", _("systemctl")


class AuthorityKind(models.TextChoices):
    HOST = "host", _("Signs host keys")  # the panel trusts keys of hosts that it signed
    USER = "user", _("Signs Paddock's keys")  # hosts accept keys that the panel signs with it


class SshAuthority(BaseModel):
    """An SSH certificate authority. The panel has the private key of authorities that sign Paddock's keys, and the
    public key of authorities that sign host keys.
    """

    name = models.SlugField(max_length=63, unique=True, validators=[validate_name])
    kind = models.CharField(max_length=4, choices=AuthorityKind.choices)
    public_key = models.TextField()  # "ssh-ed25519 AAAA..."
    private_key = EncryptedTextField(blank=True, default="", editable=False)  # OpenSSH format

    class Meta:
        ordering = ["name"]
        verbose_name = _("SSH certificate authority")
        verbose_name_plural = _("SSH certificate authorities")

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        rules.authority(self)


class Host(BaseModel):
    name = models.SlugField(max_length=63, unique=True, validators=[validate_name])
    connection = models.CharField(max_length=8, choices=Connection.choices, default=Connection.SSH)
    address = models.CharField(max_length=253, blank=True, validators=[validate_address])  # host name or IP
    port = models.PositiveIntegerField(default=22, validators=[MinValueValidator(1), MaxValueValidator(65535)])
    # the host through which the panel connects if it cannot reach this host directly (ProxyJump)
    bastion = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="hosts_behind")
    username = models.CharField(max_length=32, blank=True, validators=[validate_username])
    private_key = EncryptedTextField(blank=True, default="")  # OpenSSH or PEM
    # authority of kind "user" that signs a key for each connection, in addition to the private key or instead of it
    authority = models.ForeignKey(
        "SshAuthority", null=True, blank=True, on_delete=models.PROTECT, related_name="sign_ins"
    )
    # while the key is being replaced (key_rotation.py): the new one, and the line of the old one until it is removed
    next_private_key = EncryptedTextField(blank=True, default="", editable=False, db_default="")
    former_public_key = models.TextField(blank=True, default="", editable=False, db_default="")
    password = EncryptedTextField(blank=True, default="")
    use_sudo = models.BooleanField(default=False)
    sudo_password = EncryptedTextField(blank=True, default="")
    host_key = models.TextField(blank=True)  # pinned: "ssh-ed25519 AAAA..."
    offered_host_key = models.TextField(blank=True)  # seen, but not trusted yet
    layout = models.CharField(max_length=8, choices=Layout.choices, default=Layout.SITES)
    # absolute folders for document roots and logs
    site_roots = models.JSONField(default=list, blank=True, validators=[validate_site_roots])
    facts = models.JSONField(default=dict, blank=True)
    facts_at = models.DateTimeField(null=True, blank=True)
    # the last reading (hosts.resources.readings)
    resources = models.JSONField(default=dict, db_default={}, blank=True, editable=False)
    resources_at = models.DateTimeField(null=True, blank=True, editable=False)
    status = models.CharField(max_length=12, choices=HostStatus.choices, default=HostStatus.NEW)
    status_detail = models.TextField(blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    # maintenance: no deployments, measurements or automatic checks
    is_paused = models.BooleanField(default=False)
    tags = TagsField()
    # the teams that see the host and put sites on it; none: every team. Set by hosts.services.teams
    teams = models.ManyToManyField(Team, blank=True, related_name="hosts")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        rules.host(self)

    def permits(self, team: Team) -> bool:
        """Return whether `team` may put sites on this host."""
        teams = {row.pk for row in self.teams.all()}
        return not teams or team.pk in teams


class HostReading(models.Model):
    """Use of a host's resources in the ten minutes from `at`: means of `count` readings, and the highest values in the
    fields whose names end in `_most`.

    Shares from 0 to 1; null where the host reported no value.
    """

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="readings")
    at = models.DateTimeField()
    count = models.PositiveSmallIntegerField(default=1)
    cpu = models.FloatField(null=True)
    cpu_most = models.FloatField(null=True)
    load_most = models.FloatField(null=True)  # over one minute
    memory = models.FloatField(null=True)
    memory_most = models.FloatField(null=True)
    swap_most = models.FloatField(null=True)
    disk_most = models.FloatField(null=True)  # of the fullest file system

    class Meta:
        ordering = ["at"]
        constraints = [models.UniqueConstraint(fields=["host", "at"], name="hosts_one_reading_per_time")]

    def __str__(self) -> str:
        return f"{self.host.name} at {self.at:%Y-%m-%d %H:%M}"


class WebServer(BaseModel):
    """One web server on one host.

    `paths` are its paths on the host: binary, prefix (the server root), main_config, config_root (the folder below
    which the panel may write), log_dir, pid_file.
    """

    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="web_servers")
    engine = models.CharField(max_length=16, choices=Engine.choices)
    label = models.CharField(
        max_length=63, default="default", validators=[validate_name]
    )  # distinguishes two nginx on one host
    version = models.CharField(max_length=40, blank=True)
    modules = models.JSONField(default=list, blank=True)
    paths = models.JSONField(default=dict, validators=[validate_web_server_paths])
    layout = models.CharField(max_length=8, choices=Layout.choices)
    control = models.CharField(max_length=8, choices=Control.choices, default=Control.DIRECT)
    unit = models.CharField(max_length=120, blank=True, validators=[validate_unit])  # systemd unit
    workers = models.PositiveIntegerField(default=0)  # 0: one per CPU
    manages_main_config = models.BooleanField(default=False)  # False: the distribution's main file is left alone
    # Apache: ports opened by its own files (`Listen`); null: unknown, so 80 and 443 as in distributions
    own_ports = models.JSONField(null=True, blank=True, default=None, validators=[validate_ports])
    # OpenLiteSpeed: listeners in its own files, into which sites are mapped (rendering.spec.OwnListener)
    own_listeners = models.JSONField(default=list, blank=True, validators=[validate_listeners])
    is_running = models.BooleanField(default=False)
    running_changed_at = models.DateTimeField(
        null=True, editable=False
    )  # when is_running was last found to be different

    class Meta:
        ordering = ["host__name", "engine", "label"]
        constraints = [
            models.UniqueConstraint(fields=["host", "engine", "label"], name="hosts_one_web_server_per_label")
        ]

    def __str__(self) -> str:
        suffix = "" if self.label == "default" else f" ({self.label})"
        return f"{self.get_engine_display()}{suffix} on {self.host.name}"

    def clean(self) -> None:
        rules.web_server(self)


# Applications of suites, by the agent's names (agents/host/applications.py).
APPLICATIONS = {"wordpress": "WordPress"}


class HostJobKind(models.TextChoices):
    CHECK = "check", _("Check host")  # connect, read facts and web servers
    SERVICE = "service", _("Control web server")  # params: web_server, action start|stop|reload
    INSTALL_NATIVE = "install_native", _("Install gallop")
    DRIFT = "drift", _("Check for drift")
    ROTATE_KEY = "rotate_key", _("Replace the SSH key")
    VIRTUAL_ADDRESS = "virtual_address", _("Change a virtual address")  # params: name, action; replace (panel/failover)
    FPM_POOL = "fpm_pool", _("Change a PHP-FPM pool")  # params: name, action; replace (panel/fpm)
    PREPARE = "prepare", _("Prepare an application")  # params: application; plan, the uuid of the plan to install


SERVICE_WORDS = {"start": _("Start a web server"), "stop": _("Stop a web server"), "reload": _("Reload a web server")}


class HostJob(Job):
    """A job on a host other than a deployment or benchmark, for example a check of the host."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="jobs")
    kind = models.CharField(max_length=16, choices=HostJobKind.choices)
    params = models.JSONField(default=dict, blank=True)
    result = models.JSONField(null=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.words} on {self.host.name}"

    @property
    def words(self) -> str:
        """Description of the job for pages, for example "Stop a web server"."""
        action = str(self.params.get("action", "")) if self.kind == HostJobKind.SERVICE else ""
        return str(SERVICE_WORDS.get(action) or HostJobKind(self.kind).label)


class HostLock(models.Model):
    """Lock of a host, so that at most one deployment, benchmark or service action runs on it at a time.
    panel/hosts/locks.py takes it.

    `holder` names the job for people; `owner` is the name of the process that holds the lock (core.owners).
    """

    host = models.OneToOneField(Host, on_delete=models.CASCADE, related_name="lock")
    holder = models.CharField(max_length=120, blank=True)
    owner = models.CharField(max_length=120, blank=True, default="")
    expires_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.host.name}: {self.holder or 'free'}"
