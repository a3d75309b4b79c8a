"""Call the web server `web_server`, and what the panel knows of its files WebServerState."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0008_shared_job_fields"),
        ("hosts", "0009_web_server"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="drift", name="deployments_one_open_drift"),
        migrations.RemoveConstraint(model_name="pinnedfile", name="deployments_pinned_once"),
        migrations.RemoveConstraint(model_name="replacedfile", name="deployments_replaced_once"),
        migrations.RemoveConstraint(model_name="revision", name="deployments_revision_digest"),
        migrations.RenameModel(old_name="InstallState", new_name="WebServerState"),
        migrations.RenameField(model_name="webserverstate", old_name="install", new_name="web_server"),
        migrations.RenameField(model_name="drift", old_name="install", new_name="web_server"),
        migrations.RenameField(model_name="pinnedfile", old_name="install", new_name="web_server"),
        migrations.RenameField(model_name="replacedfile", old_name="install", new_name="web_server"),
        migrations.RenameField(model_name="revision", old_name="install", new_name="web_server"),
        migrations.AddConstraint(
            model_name="drift",
            constraint=models.UniqueConstraint(
                fields=("web_server", "path"), condition=models.Q(resolution=""), name="deployments_one_open_drift"
            ),
        ),
        migrations.AddConstraint(
            model_name="pinnedfile",
            constraint=models.UniqueConstraint(fields=("site", "web_server", "path"), name="deployments_pinned_once"),
        ),
        migrations.AddConstraint(
            model_name="replacedfile",
            constraint=models.UniqueConstraint(
                fields=("web_server", "path", "original"), name="deployments_replaced_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="revision",
            constraint=models.UniqueConstraint(
                fields=("site", "web_server", "digest"), name="deployments_revision_digest"
            ),
        ),
    ]
