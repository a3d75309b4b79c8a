"""Rename HostOperation to HostJob."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("hosts", "0010_web_server_keys"),
    ]

    operations = [
        migrations.RenameModel(old_name="HostOperation", new_name="HostJob"),
        migrations.AlterField(
            model_name="hostjob",
            name="host",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="jobs", to="hosts.host"),
        ),
    ]
