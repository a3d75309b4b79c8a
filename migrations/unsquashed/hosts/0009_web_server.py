"""Rename EngineInstall to WebServer."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("hosts", "0008_shared_job_fields"),
        ("benchmarks", "0004_scenario_names"),
        ("deployments", "0008_shared_job_fields"),
        ("imports", "0001_initial"),
        ("websites", "0008_answers_challenges"),
    ]

    operations = [
        migrations.RenameModel(old_name="EngineInstall", new_name="WebServer"),
        migrations.AlterField(
            model_name="webserver",
            name="host",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="web_servers", to="hosts.host"
            ),
        ),
        migrations.RemoveConstraint(model_name="webserver", name="hosts_one_install_per_label"),
        migrations.AddConstraint(
            model_name="webserver",
            constraint=models.UniqueConstraint(
                fields=("host", "engine", "label"), name="hosts_one_web_server_per_label"
            ),
        ),
    ]
