"""All tables of the app. `replaces` names the chain in migrations/unsquashed that led to the same tables."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("audit", "0001_initial"),
        ("audit", "0002_web_server"),
        ("audit", "0003_vocabulary"),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                ("actor_label", models.CharField(max_length=120)),
                ("token_prefix", models.CharField(blank=True, max_length=16)),
                ("action", models.CharField(db_index=True, max_length=80)),
                ("object_type", models.CharField(max_length=80)),
                ("object_id", models.CharField(max_length=64)),
                ("object_label", models.CharField(max_length=200)),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
                ("request_id", models.CharField(blank=True, max_length=32)),
                ("address", models.GenericIPAddressField(null=True)),
                (
                    "actor",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "audit entries",
                "ordering": ["-at", "-pk"],
                "indexes": [
                    models.Index(fields=["object_type", "object_id", "-at"], name="audit_audit_object__d17f13_idx")
                ],
            },
        ),
    ]
