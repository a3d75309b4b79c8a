"""All tables of the app. `replaces` names the chain in migrations/unsquashed that led to the same tables."""

import uuid

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import panel.accounts.validators


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("benchmarks", "0001_initial"),
        ("benchmarks", "0002_suites"),
        ("benchmarks", "0003_suite_parts"),
        ("benchmarks", "0004_scenario_names"),
        ("benchmarks", "0005_web_server"),
        ("benchmarks", "0006_web_server_keys"),
        ("benchmarks", "0007_testbed_keys"),
    ]

    dependencies = [
        ("accounts", "0001_squashed"),
        ("deployments", "0001_squashed"),
        ("hosts", "0001_squashed"),
        ("websites", "0001_squashed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Run",
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
                ("case", models.PositiveIntegerField(blank=True, null=True)),
                ("title", models.CharField(max_length=200)),
                ("parameters", models.JSONField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("finished", "Finished"),
                            ("invalid", "Invalid"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        db_index=True,
                        default="queued",
                        max_length=12,
                    ),
                ),
                ("reasons", models.JSONField(default=list)),
                ("fingerprint", models.JSONField(default=dict)),
                ("summary", models.JSONField(default=dict)),
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
                "ordering": ["-created_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="RunTarget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("label", models.CharField(max_length=200)),
                ("base_url", models.CharField(max_length=300)),
                ("engine", models.CharField(max_length=16)),
                ("setup", models.CharField(blank=True, max_length=40)),
                (
                    "revision",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="deployments.revision",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="targets", to="benchmarks.run"
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="websites.site"
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
            },
        ),
        migrations.CreateModel(
            name="Round",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("argv", models.JSONField(default=list)),
                ("exit_code", models.IntegerField(null=True)),
                ("output", models.TextField(blank=True)),
                ("metrics", models.JSONField(default=dict)),
                ("samples", models.JSONField(default=dict)),
                ("error", models.TextField(blank=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "target",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rounds", to="benchmarks.runtarget"
                    ),
                ),
            ],
            options={
                "ordering": ["number", "target__position"],
            },
        ),
        migrations.CreateModel(
            name="Scenario",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "name",
                    models.CharField(max_length=120, unique=True, validators=[panel.accounts.validators.validate_line]),
                ),
                (
                    "tool",
                    models.CharField(
                        choices=[("ab", "ab"), ("h2load", "h2load"), ("wrk", "wrk"), ("siege", "siege")], max_length=8
                    ),
                ),
                ("arguments", models.JSONField(default=dict)),
                ("paths", models.JSONField(default=list)),
                (
                    "rounds",
                    models.PositiveIntegerField(
                        default=3,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                    ),
                ),
                (
                    "warmup_s",
                    models.PositiveIntegerField(default=2, validators=[django.core.validators.MaxValueValidator(600)]),
                ),
                (
                    "timeout_s",
                    models.PositiveIntegerField(
                        default=120,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(3600),
                        ],
                    ),
                ),
                (
                    "allowed_error_percent",
                    models.FloatField(
                        default=0.0,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(100),
                        ],
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="scenarios",
                        to="accounts.team",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.AddField(
            model_name="run",
            name="scenario",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="runs", to="benchmarks.scenario"
            ),
        ),
        migrations.CreateModel(
            name="SuiteRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("suite", models.CharField(max_length=40)),
                ("preset", models.CharField(max_length=8)),
                ("host_name", models.CharField(max_length=63)),
                ("title", models.CharField(max_length=200)),
                ("plan", models.JSONField()),
                ("setups", models.JSONField(default=list)),
                ("left_out", models.JSONField(default=list)),
                ("chosen", models.JSONField(blank=True, default=dict)),
                ("position", models.PositiveIntegerField(default=0)),
                (
                    "status",
                    models.CharField(
                        choices=[("running", "Running"), ("finished", "Finished"), ("cancelled", "Cancelled")],
                        db_index=True,
                        default="running",
                        max_length=12,
                    ),
                ),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "host",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="hosts.host"
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
                "ordering": ["-created_at", "-pk"],
            },
        ),
        migrations.AddField(
            model_name="run",
            name="suite_run",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="runs",
                to="benchmarks.suiterun",
            ),
        ),
        migrations.AddConstraint(
            model_name="runtarget",
            constraint=models.UniqueConstraint(fields=("run", "position"), name="benchmarks_target_position"),
        ),
        migrations.AddConstraint(
            model_name="round",
            constraint=models.UniqueConstraint(fields=("target", "number"), name="benchmarks_round_number"),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(fields=("suite_run", "case"), name="benchmarks_run_once_per_case"),
        ),
    ]
