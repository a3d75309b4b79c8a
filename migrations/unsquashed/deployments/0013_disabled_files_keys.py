"""Name the revisions of disabled files in plans as in the columns."""

from django.db import migrations

from migrations.unsquashed.json_keys import rename_keys


def keys_rename(apps, schema_editor):
    names = {"rests": "disabled_after", "rested": "disabled_before"}
    rename_keys(apps.get_model("deployments", "Deployment"), "plan", names)


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0012_disabled_files"),
    ]

    operations = [
        migrations.RunPython(keys_rename, migrations.RunPython.noop, elidable=True),
    ]
