"""All tables of the app. `replaces` names the chain in migrations/unsquashed that led to the same tables."""

import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

import panel.accounts.validators
import panel.core.fields


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("accounts", "0001_initial"),
        ("accounts", "0002_setup_secret_and_validators"),
        ("accounts", "0003_saved_view"),
        ("accounts", "0004_mail_notices"),
        ("accounts", "0005_guess_budget"),
        ("accounts", "0006_mail_alerts"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "username",
                    models.CharField(
                        help_text="Letters, digits, and . _ - @ +, for example `anna.berger`.",
                        max_length=80,
                        unique=True,
                        validators=[panel.accounts.validators.validate_username],
                    ),
                ),
                ("email", models.EmailField(blank=True, max_length=254)),
                (
                    "role",
                    models.CharField(
                        choices=[("admin", "Administrator"), ("operator", "Operator"), ("viewer", "Viewer")],
                        default="viewer",
                        max_length=16,
                    ),
                ),
                ("is_active", models.BooleanField(default=True)),
                (
                    "timezone",
                    models.CharField(
                        default="UTC", max_length=64, validators=[panel.accounts.validators.validate_timezone]
                    ),
                ),
                (
                    "theme",
                    models.CharField(
                        choices=[("system", "System default"), ("light", "Light"), ("dark", "Dark")],
                        default="system",
                        max_length=8,
                    ),
                ),
                ("mail_alerts", models.BooleanField(default=False)),
                ("totp_secret", panel.core.fields.EncryptedTextField(blank=True, default="")),
                ("totp_confirmed_at", models.DateTimeField(blank=True, null=True)),
                ("totp_last_counter", models.BigIntegerField(default=0)),
                ("recovery_codes", models.JSONField(blank=True, default=list)),
            ],
            options={
                "ordering": ["username"],
            },
        ),
        migrations.CreateModel(
            name="GuessBudget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=120, unique=True)),
                ("failures", models.FloatField(default=0.0)),
                ("counted_at", models.DateTimeField()),
                ("forgotten_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="SetupSecret",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("used_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Team",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "name",
                    models.CharField(max_length=80, unique=True, validators=[panel.accounts.validators.validate_line]),
                ),
                ("slug", models.SlugField(max_length=80, unique=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("name", models.CharField(max_length=80, validators=[panel.accounts.validators.validate_line])),
                ("prefix", models.CharField(max_length=16, unique=True)),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("scopes", models.JSONField(default=list, validators=[panel.accounts.validators.validate_scopes])),
                (
                    "addresses",
                    models.JSONField(
                        blank=True, default=None, null=True, validators=[panel.accounts.validators.validate_addresses]
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_address", models.GenericIPAddressField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at"],
            },
        ),
        migrations.AddField(
            model_name="user",
            name="teams",
            field=models.ManyToManyField(blank=True, related_name="members", to="accounts.team"),
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "page",
                    models.CharField(
                        choices=[
                            ("websites:list", "Sites"),
                            ("hosts:list", "Hosts"),
                            ("deployments:list", "Deployments"),
                            ("benchmarks:list", "Benchmarks"),
                            ("audit:list", "Audit log"),
                        ],
                        max_length=40,
                    ),
                ),
                ("name", models.CharField(max_length=40, validators=[panel.accounts.validators.validate_line])),
                ("query", models.CharField(max_length=1000)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="views", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["page", django.db.models.functions.text.Lower("name")],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("user"),
                        models.F("page"),
                        django.db.models.functions.text.Lower("name"),
                        name="accounts_savedview_once",
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.UniqueConstraint(
                django.db.models.functions.text.Lower("username"), name="accounts_user_username_ci"
            ),
        ),
    ]
