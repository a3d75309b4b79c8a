"""All tables of the app. `replaces` names the chain in migrations/unsquashed that led to the same tables."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import panel.core.fields


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("imports", "0001_initial"),
        ("imports", "0002_web_server"),
    ]

    dependencies = [
        ("hosts", "0001_squashed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Import",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("row_version", models.PositiveIntegerField(default=1, editable=False)),
                ("uuid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "source",
                    models.CharField(
                        choices=[("host", "Read from the host"), ("upload", "Uploaded archive")], max_length=8
                    ),
                ),
                ("filename", models.CharField(blank=True, max_length=200)),
                ("content", panel.core.fields.EncryptedTextField()),
                ("sites_found", models.PositiveIntegerField(default=0)),
                ("faults_found", models.PositiveIntegerField(default=0)),
                ("adopted", models.JSONField(default=dict)),
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
                    "web_server",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="imports", to="hosts.webserver"
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
            },
        ),
    ]
