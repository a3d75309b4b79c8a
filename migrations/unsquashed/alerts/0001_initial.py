"""Alerts that were sent by mail; they were notices."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from migrations.unsquashed.former_app import CreateOrRename, forget_app


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0006_mail_alerts"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        CreateOrRename(
            former_table="notices_notices",
            former_columns={},
            name="AlertMail",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tried_at", models.DateTimeField(null=True)),
                ("sent_at", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True)),
                ("attempts", models.PositiveIntegerField(default=0)),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_mail",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "alerts",
                "verbose_name_plural": "alerts",
            },
        ),
        CreateOrRename(
            former_table="notices_told",
            former_columns={"told_at": "sent_at"},
            name="SentAlert",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=300)),
                ("words", models.TextField()),
                ("sent_at", models.DateTimeField(auto_now_add=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user", "key"), name="alerts_sent_once")],
            },
        ),
        forget_app("notices", "alerts", {"notices": "alertmail", "told": "sentalert"}),
    ]
