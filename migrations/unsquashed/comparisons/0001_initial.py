"""Server comparisons; they were trials."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from migrations.unsquashed.former_app import CreateOrRename, forget_app


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("benchmarks", "0006_web_server_keys"),
        ("deployments", "0011_live_versions"),
        ("hosts", "0011_host_job"),
        ("websites", "0010_site_version"),
        ("contenttypes", "0002_remove_content_type_name"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateOrRename(
            former_table="trials_trial",
            former_columns={},
            name="Comparison",
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
                ("load", models.JSONField()),
                ("is_replay", models.BooleanField(default=False)),
                ("left_out", models.JSONField(default=list)),
                (
                    "phase",
                    models.CharField(
                        choices=[
                            ("copy", "Copying the site to private ports"),
                            ("deploy", "Deploying the copies"),
                            ("compare", "Comparing responses"),
                            ("measure", "Measuring"),
                            ("clean", "Removing the copies"),
                        ],
                        default="copy",
                        max_length=12,
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "stopped_in",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("copy", "Copying the site to private ports"),
                            ("deploy", "Deploying the copies"),
                            ("compare", "Comparing responses"),
                            ("measure", "Measuring"),
                            ("clean", "Removing the copies"),
                        ],
                        max_length=12,
                    ),
                ),
                ("remains", models.TextField(blank=True)),
                ("cleanings", models.PositiveIntegerField(default=0)),
                ("retry_at", models.DateTimeField(null=True)),
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
                    "run",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="comparisons",
                        to="benchmarks.run",
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="comparisons",
                        to="websites.site",
                    ),
                ),
                (
                    "switch",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.deployment",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
            },
        ),
        CreateOrRename(
            former_table="trials_contender",
            former_columns={"trial_id": "comparison_id", "install_id": "web_server_id"},
            name="Contender",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("label", models.CharField(max_length=200)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("standing", "Deployed"),
                            ("refused", "Deployment failed"),
                            ("different", "Different responses"),
                            ("same", "Same responses"),
                        ],
                        default="waiting",
                        max_length=12,
                    ),
                ),
                ("detail", models.TextField(blank=True)),
                ("was_stopped", models.BooleanField(default=False)),
                (
                    "comparison",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="contenders",
                        to="comparisons.comparison",
                    ),
                ),
                (
                    "copy",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="websites.site",
                    ),
                ),
                (
                    "web_server",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="hosts.webserver"
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
                "constraints": [
                    models.UniqueConstraint(fields=("comparison", "position"), name="comparisons_contender_position")
                ],
            },
        ),
        forget_app("trials", "comparisons", {"trial": "comparison", "contender": "contender"}),
    ]
