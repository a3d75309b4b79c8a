"""Call the wish for mails about alerts `mail_alerts`."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_guess_budget"),
    ]

    operations = [
        migrations.RenameField(model_name="user", old_name="mail_notices", new_name="mail_alerts"),
    ]
