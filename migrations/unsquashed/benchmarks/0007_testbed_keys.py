"""Call the test bed of a run `testbed` in its JSON."""

from django.db import migrations

from migrations.unsquashed.json_keys import rename_keys


def keys_rename(apps, schema_editor):
    runs = apps.get_model("benchmarks", "Run")
    rename_keys(runs, "parameters", {"stand": "testbed"})
    rename_keys(runs, "fingerprint", {"stands": "testbeds"})


class Migration(migrations.Migration):
    dependencies = [
        ("benchmarks", "0006_web_server_keys"),
    ]

    operations = [
        migrations.RunPython(keys_rename, migrations.RunPython.noop, elidable=True),
    ]
