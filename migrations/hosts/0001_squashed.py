"""All tables of the app. `replaces` names the chain in migrations/unsquashed that led to the same tables."""

import uuid

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import panel.core.fields
import panel.core.tags
import panel.hosts.validators


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("hosts", "0001_initial"),
        ("hosts", "0002_checked_fields"),
        ("hosts", "0003_own_ports"),
        ("hosts", "0004_host_is_paused"),
        ("hosts", "0005_prepare_applications"),
        ("hosts", "0006_tags"),
        ("hosts", "0007_own_listeners"),
        ("hosts", "0008_shared_job_fields"),
        ("hosts", "0009_web_server"),
        ("hosts", "0010_web_server_keys"),
        ("hosts", "0011_host_job"),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Host",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "name",
                    models.SlugField(max_length=63, unique=True, validators=[panel.hosts.validators.validate_name]),
                ),
                (
                    "connection",
                    models.CharField(choices=[("local", "This host"), ("ssh", "SSH")], default="ssh", max_length=8),
                ),
                (
                    "address",
                    models.CharField(blank=True, max_length=253, validators=[panel.hosts.validators.validate_address]),
                ),
                (
                    "port",
                    models.PositiveIntegerField(
                        default=22,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(65535),
                        ],
                    ),
                ),
                (
                    "username",
                    models.CharField(blank=True, max_length=32, validators=[panel.hosts.validators.validate_username]),
                ),
                ("private_key", panel.core.fields.EncryptedTextField(blank=True, default="")),
                ("password", panel.core.fields.EncryptedTextField(blank=True, default="")),
                ("use_sudo", models.BooleanField(default=False)),
                ("sudo_password", panel.core.fields.EncryptedTextField(blank=True, default="")),
                ("host_key", models.TextField(blank=True)),
                ("offered_host_key", models.TextField(blank=True)),
                (
                    "layout",
                    models.CharField(
                        choices=[
                            ("conf_d", "conf.d/*.conf; disabled files end in .conf.disabled"),
                            ("sites", "sites-available with links in sites-enabled"),
                            ("vhosts", "vhosts/NAME/vhconf.conf (OpenLiteSpeed)"),
                        ],
                        default="sites",
                        max_length=8,
                    ),
                ),
                (
                    "site_roots",
                    models.JSONField(blank=True, default=list, validators=[panel.hosts.validators.validate_site_roots]),
                ),
                ("facts", models.JSONField(blank=True, default=dict)),
                ("facts_at", models.DateTimeField(blank=True, null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("new", "Not yet trusted"),
                            ("ready", "Ready"),
                            ("unreachable", "Unreachable"),
                            ("key_changed", "Host key changed"),
                        ],
                        default="new",
                        max_length=12,
                    ),
                ),
                ("status_detail", models.TextField(blank=True)),
                ("last_seen_at", models.DateTimeField(blank=True, null=True)),
                ("is_paused", models.BooleanField(default=False)),
                ("tags", panel.core.tags.TagsField()),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="HostJob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        db_index=True,
                        default="queued",
                        max_length=12,
                    ),
                ),
                ("error", models.TextField(blank=True)),
                ("progress", models.CharField(blank=True, max_length=200)),
                ("cancel_requested", models.BooleanField(default=False)),
                ("claimed_by", models.CharField(blank=True, max_length=120)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("check", "Check host"),
                            ("service", "Control web server"),
                            ("install_native", "Install gallop"),
                            ("drift", "Check for drift"),
                            ("prepare", "Prepare an application"),
                        ],
                        max_length=16,
                    ),
                ),
                ("params", models.JSONField(blank=True, default=dict)),
                ("result", models.JSONField(null=True)),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="jobs", to="hosts.host"
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at"],
            },
        ),
        migrations.CreateModel(
            name="HostLock",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("holder", models.CharField(blank=True, max_length=120)),
                ("owner", models.CharField(blank=True, default="", max_length=120)),
                ("expires_at", models.DateTimeField(null=True)),
                (
                    "host",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="lock", to="hosts.host"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WebServer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "engine",
                    models.CharField(
                        choices=[
                            ("nginx", "nginx"),
                            ("apache", "Apache httpd"),
                            ("openlitespeed", "OpenLiteSpeed"),
                            ("native", "gallop"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "label",
                    models.CharField(
                        default="default", max_length=63, validators=[panel.hosts.validators.validate_name]
                    ),
                ),
                ("version", models.CharField(blank=True, max_length=40)),
                ("modules", models.JSONField(blank=True, default=list)),
                (
                    "paths",
                    models.JSONField(default=dict, validators=[panel.hosts.validators.validate_web_server_paths]),
                ),
                (
                    "layout",
                    models.CharField(
                        choices=[
                            ("conf_d", "conf.d/*.conf; disabled files end in .conf.disabled"),
                            ("sites", "sites-available with links in sites-enabled"),
                            ("vhosts", "vhosts/NAME/vhconf.conf (OpenLiteSpeed)"),
                        ],
                        max_length=8,
                    ),
                ),
                (
                    "control",
                    models.CharField(
                        choices=[("direct", "Its own binary (-s reload, -k graceful)"), ("systemd", "systemctl")],
                        default="direct",
                        max_length=8,
                    ),
                ),
                (
                    "unit",
                    models.CharField(blank=True, max_length=120, validators=[panel.hosts.validators.validate_unit]),
                ),
                ("workers", models.PositiveIntegerField(default=0)),
                ("manages_main_config", models.BooleanField(default=False)),
                (
                    "own_ports",
                    models.JSONField(
                        blank=True, default=None, null=True, validators=[panel.hosts.validators.validate_ports]
                    ),
                ),
                (
                    "own_listeners",
                    models.JSONField(blank=True, default=list, validators=[panel.hosts.validators.validate_listeners]),
                ),
                ("is_running", models.BooleanField(default=False)),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="web_servers", to="hosts.host"
                    ),
                ),
            ],
            options={
                "ordering": ["host__name", "engine", "label"],
                "constraints": [
                    models.UniqueConstraint(fields=("host", "engine", "label"), name="hosts_one_web_server_per_label")
                ],
            },
        ),
    ]
