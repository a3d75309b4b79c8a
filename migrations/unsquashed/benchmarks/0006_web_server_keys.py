"""Call the web servers of a suite run `web_server` in its JSON."""

from django.db import migrations

from migrations.unsquashed.json_keys import rename_keys

NAMES = {"install": "web_server", "installs": "web_servers"}


def keys_rename(apps, schema_editor):
    rename_keys(apps.get_model("benchmarks", "SuiteRun"), "setups", NAMES)


class Migration(migrations.Migration):
    dependencies = [
        ("benchmarks", "0005_web_server"),
    ]

    operations = [
        migrations.RunPython(keys_rename, migrations.RunPython.noop, elidable=True),
    ]
