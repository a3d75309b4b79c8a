"""Call the web server `web_server`."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("trials", "0004_shared_job_fields"),
        ("hosts", "0009_web_server"),
    ]

    operations = [
        migrations.RenameField(model_name="contender", old_name="install", new_name="web_server"),
    ]
