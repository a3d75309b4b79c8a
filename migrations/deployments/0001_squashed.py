"""All tables of the app. `replaces` names the chain in migrations/unsquashed that led to the same tables."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import panel.core.fields
import panel.deployments.fields
import panel.deployments.plan


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("deployments", "0001_initial"),
        ("deployments", "0002_deployment_comparison_replacedfile"),
        ("deployments", "0003_disabled_files_stay"),
        ("deployments", "0004_main_files"),
        ("deployments", "0005_replaced_files_append"),
        ("deployments", "0006_superseded_plans"),
        ("deployments", "0007_typed_plan"),
        ("deployments", "0008_shared_job_fields"),
        ("deployments", "0009_web_server"),
        ("deployments", "0010_web_server_keys"),
        ("deployments", "0011_live_versions"),
        ("deployments", "0012_disabled_files"),
        ("deployments", "0013_disabled_files_keys"),
    ]

    dependencies = [
        ("hosts", "0001_squashed"),
        ("websites", "0001_squashed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Blob",
            fields=[
                ("sha256", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("content", panel.core.fields.EncryptedTextField()),
                ("is_secret", models.BooleanField(default=False)),
                ("size", models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Deployment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("error", models.TextField(blank=True)),
                ("progress", models.CharField(blank=True, max_length=200)),
                ("cancel_requested", models.BooleanField(default=False)),
                ("claimed_by", models.CharField(blank=True, max_length=120)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("batch", models.UUIDField(db_index=True, default=uuid.uuid4, editable=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("deploy", "Deploy"),
                            ("rollback", "Roll back to an earlier revision"),
                            ("disable", "Disable"),
                            ("move", "Move to another web server"),
                            ("overwrite", "Overwrite drift"),
                            ("main", "Change the main file"),
                        ],
                        default="deploy",
                        max_length=12,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("planned", "Planned"),
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("succeeded", "Verified"),
                            ("rolled_back", "Rolled back"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        db_index=True,
                        default="planned",
                        max_length=12,
                    ),
                ),
                ("plan", panel.deployments.fields.PlanField(default=panel.deployments.plan.Plan)),
                (
                    "on_success",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "Nothing else"),
                            ("disable", "The sites are disabled"),
                            ("delete", "The sites are deleted with their history"),
                            ("move", "The sites belong to the target web server"),
                            ("main", "The main file of the target web server is recorded"),
                        ],
                        default="",
                        max_length=8,
                    ),
                ),
                ("comparison", models.JSONField(default=None, null=True)),
                ("confirmed_at", models.DateTimeField(null=True)),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="deployments", to="hosts.host"
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
                (
                    "superseded_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.deployment",
                    ),
                ),
                (
                    "target",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="hosts.webserver"
                    ),
                ),
                (
                    "waits_for",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="followers",
                        to="deployments.deployment",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("spec", models.JSONField()),
                ("files", models.JSONField()),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="revisions", to="websites.site"
                    ),
                ),
                (
                    "web_server",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="revisions", to="hosts.webserver"
                    ),
                ),
            ],
            options={
                "ordering": ["-number"],
            },
        ),
        migrations.CreateModel(
            name="DeploymentItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(null=True)),
                (
                    "deployment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="items", to="deployments.deployment"
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deployment_items", to="websites.site"
                    ),
                ),
                (
                    "disabled_after",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="deployments.revision",
                    ),
                ),
                (
                    "disabled_before",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.revision",
                    ),
                ),
                (
                    "previous",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.revision",
                    ),
                ),
                (
                    "revision",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="deployments.revision",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SiteState",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "status",
                    models.CharField(
                        choices=[("draft", "Draft"), ("live", "Live"), ("disabled", "Disabled"), ("drifted", "Drift")],
                        db_index=True,
                        default="draft",
                        max_length=12,
                    ),
                ),
                ("live_version", models.PositiveIntegerField(null=True)),
                ("deployed_at", models.DateTimeField(null=True)),
                (
                    "disabled_revision",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="deployments.revision",
                    ),
                ),
                (
                    "last_failure",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.deployment",
                    ),
                ),
                (
                    "revision",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="deployments.revision",
                    ),
                ),
                (
                    "site",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="state", to="websites.site"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("name", models.CharField(max_length=120)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("succeeded", "Done"),
                            ("failed", "Failed"),
                            ("skipped", "Skipped"),
                        ],
                        max_length=12,
                    ),
                ),
                ("argv", models.JSONField(default=list)),
                ("exit_code", models.IntegerField(null=True)),
                ("output", models.TextField(blank=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "deployment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="steps", to="deployments.deployment"
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
            },
        ),
        migrations.CreateModel(
            name="WebServerState",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("files", models.JSONField(default=list)),
                ("main_files", models.JSONField(default=list)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "web_server",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="state", to="hosts.webserver"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Drift",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.TextField()),
                ("expected_sha256", models.CharField(max_length=64)),
                ("found_sha256", models.CharField(blank=True, max_length=64)),
                ("found", panel.core.fields.EncryptedTextField(blank=True, default="")),
                ("diff", models.TextField(blank=True)),
                ("detected_at", models.DateTimeField(auto_now_add=True)),
                (
                    "resolution",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "Open"),
                            ("adopted", "Adopted"),
                            ("overwritten", "Overwritten"),
                            ("gone", "Restored on the host"),
                        ],
                        default="",
                        max_length=12,
                    ),
                ),
                ("resolved_at", models.DateTimeField(null=True)),
                (
                    "site",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="drifts",
                        to="websites.site",
                    ),
                ),
                (
                    "web_server",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="drifts", to="hosts.webserver"
                    ),
                ),
            ],
            options={
                "ordering": ["-detected_at"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("resolution", "")),
                        fields=("web_server", "path"),
                        name="deployments_one_open_drift",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PinnedFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("path", models.TextField()),
                (
                    "adopted_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "blob",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="deployments.blob"
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="pinned_files", to="websites.site"
                    ),
                ),
                (
                    "web_server",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="hosts.webserver"
                    ),
                ),
            ],
            options={
                "ordering": ["path"],
                "constraints": [
                    models.UniqueConstraint(fields=("site", "web_server", "path"), name="deployments_pinned_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="ReplacedFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.TextField()),
                ("real", models.TextField(blank=True)),
                ("link", models.TextField(blank=True)),
                ("mode", models.PositiveIntegerField(default=420)),
                ("parts", models.JSONField(default=list)),
                ("done", models.JSONField(default=list)),
                ("appends", models.TextField(blank=True, default="")),
                ("adopted_at", models.DateTimeField(auto_now_add=True)),
                (
                    "original",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="deployments.blob"
                    ),
                ),
                (
                    "web_server",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="replaced_files", to="hosts.webserver"
                    ),
                ),
            ],
            options={
                "ordering": ["path", "pk"],
                "constraints": [
                    models.UniqueConstraint(fields=("web_server", "path", "original"), name="deployments_replaced_once")
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="revision",
            constraint=models.UniqueConstraint(fields=("site", "number"), name="deployments_revision_number"),
        ),
        migrations.AddConstraint(
            model_name="revision",
            constraint=models.UniqueConstraint(
                fields=("site", "web_server", "digest"), name="deployments_revision_digest"
            ),
        ),
        migrations.AddConstraint(
            model_name="deploymentitem",
            constraint=models.UniqueConstraint(fields=("deployment", "site"), name="deployments_site_once"),
        ),
        migrations.AddConstraint(
            model_name="step",
            constraint=models.UniqueConstraint(fields=("deployment", "position"), name="deployments_step_position"),
        ),
    ]
