"""Call the web servers of a plan `web_server` in its JSON."""

from django.db import migrations

from migrations.unsquashed.json_keys import rename_keys

NAMES = {"install": "web_server", "installs": "web_servers"}


def keys_rename(apps, schema_editor):
    rename_keys(apps.get_model("deployments", "Deployment"), "plan", NAMES)


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0009_web_server"),
    ]

    operations = [
        migrations.RunPython(keys_rename, migrations.RunPython.noop, elidable=True),
    ]
