"""Call the web server `web_server`."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("benchmarks", "0004_scenario_names"),
        ("hosts", "0009_web_server"),
    ]

    operations = [
        migrations.RenameField(model_name="runtarget", old_name="install", new_name="web_server"),
    ]
