"""All tables of the app. `replaces` names the chain in migrations/unsquashed that led to the same tables."""

import uuid

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import panel.accounts.validators
import panel.core.fields
import panel.reports.models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("reports", "0001_initial"),
        ("reports", "0002_schedule_chosen"),
        ("reports", "0003_shared_job_fields"),
    ]

    dependencies = [
        ("accounts", "0001_squashed"),
        ("benchmarks", "0001_squashed"),
        ("hosts", "0001_squashed"),
        ("websites", "0001_squashed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Watch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("looked_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Occurrence",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField()),
                ("dates", models.PositiveIntegerField(default=1)),
                ("by_hand", models.BooleanField(default=False)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting for the previous run"),
                            ("running", "Running"),
                            ("finished", "Reported"),
                            ("missed", "Missed"),
                            ("skipped", "Skipped"),
                            ("failed", "Could not start"),
                        ],
                        db_index=True,
                        max_length=8,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "run",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="occurrence",
                        to="benchmarks.run",
                    ),
                ),
                (
                    "suite_run",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="occurrence",
                        to="benchmarks.suiterun",
                    ),
                ),
            ],
            options={
                "ordering": ["-due_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="Report",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("about_sites", models.BooleanField(default=True)),
                ("title", models.CharField(max_length=200)),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("first", "First report"),
                            ("worse", "Worse"),
                            ("better", "Better"),
                            ("unsure", "Not significant yet"),
                            ("no_difference", "No significant difference"),
                            ("invalid", "Not reliable"),
                            ("failed", "Failed"),
                        ],
                        db_index=True,
                        max_length=16,
                    ),
                ),
                ("headline", models.TextField()),
                ("content", models.JSONField()),
                (
                    "occurrence",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="report",
                        to="reports.occurrence",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="reports",
                        to="benchmarks.run",
                    ),
                ),
                (
                    "suite_run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="reports",
                        to="benchmarks.suiterun",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="accounts.team"
                    ),
                ),
                ("teams", models.ManyToManyField(related_name="reports", to="accounts.team")),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
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
                ("channel", models.CharField(choices=[("mail", "Mail"), ("webhook", "Webhook")], max_length=8)),
                ("target", models.CharField(max_length=500)),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("due_at", models.DateTimeField()),
                ("log", models.JSONField(default=list)),
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
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="reports.report"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "deliveries",
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "name",
                    models.CharField(max_length=120, unique=True, validators=[panel.accounts.validators.validate_line]),
                ),
                ("cron", models.CharField(max_length=120)),
                (
                    "timezone",
                    models.CharField(
                        default="UTC", max_length=64, validators=[panel.accounts.validators.validate_timezone]
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("scenario", "A scenario on sites"), ("suite", "A suite on a host")], max_length=8
                    ),
                ),
                ("suite", models.CharField(blank=True, max_length=40)),
                ("preset", models.CharField(blank=True, max_length=8)),
                ("chosen", models.JSONField(blank=True, default=dict)),
                (
                    "overlap",
                    models.CharField(
                        choices=[("skip", "Skip the run and record it"), ("wait", "Start the run afterwards")],
                        default="skip",
                        max_length=8,
                    ),
                ),
                (
                    "grace_minutes",
                    models.PositiveIntegerField(
                        default=60,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10080),
                        ],
                    ),
                ),
                (
                    "notify",
                    models.CharField(
                        choices=[("always", "Every report"), ("changes", "Only changes, failures, and missed runs")],
                        default="always",
                        max_length=8,
                    ),
                ),
                (
                    "recipients",
                    models.JSONField(blank=True, default=list, validators=[panel.reports.models.validate_recipients]),
                ),
                (
                    "attachments",
                    models.JSONField(blank=True, default=list, validators=[panel.reports.models.validate_forms]),
                ),
                (
                    "webhook_url",
                    models.CharField(blank=True, max_length=500, validators=[panel.reports.models.validate_url]),
                ),
                ("webhook_secret", panel.core.fields.EncryptedTextField(blank=True, default="")),
                (
                    "keep_reports",
                    models.PositiveIntegerField(
                        blank=True,
                        default=100,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10000),
                        ],
                    ),
                ),
                (
                    "keep_days",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(3650),
                        ],
                    ),
                ),
                ("is_paused", models.BooleanField(default=False)),
                ("next_due_at", models.DateTimeField(blank=True, db_index=True, editable=False, null=True)),
                (
                    "host",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="hosts.host",
                    ),
                ),
                (
                    "run_as",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "scenario",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="schedules",
                        to="benchmarks.scenario",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="schedules",
                        to="accounts.team",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.AddField(
            model_name="report",
            name="schedule",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="reports", to="reports.schedule"
            ),
        ),
        migrations.AddField(
            model_name="occurrence",
            name="schedule",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="occurrences", to="reports.schedule"
            ),
        ),
        migrations.CreateModel(
            name="ScheduleSite",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("name", models.CharField(max_length=63)),
                (
                    "schedule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="sites", to="reports.schedule"
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="websites.site"
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
            },
        ),
        migrations.AddConstraint(
            model_name="occurrence",
            constraint=models.UniqueConstraint(fields=("schedule", "due_at"), name="reports_date_once"),
        ),
        migrations.AddConstraint(
            model_name="schedulesite",
            constraint=models.UniqueConstraint(fields=("schedule", "position"), name="reports_schedule_position"),
        ),
    ]
