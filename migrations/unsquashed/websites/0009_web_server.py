"""Call the web server `web_server`."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("websites", "0008_answers_challenges"),
        ("hosts", "0009_web_server"),
    ]

    operations = [
        migrations.RenameField(model_name="site", old_name="install", new_name="web_server"),
    ]
