"""Call the web server `web_server`."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("imports", "0001_initial"),
        ("hosts", "0009_web_server"),
    ]

    operations = [
        migrations.RenameField(model_name="import", old_name="install", new_name="web_server"),
    ]
