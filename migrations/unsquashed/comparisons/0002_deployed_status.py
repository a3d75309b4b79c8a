"""Call the status of a copy that is deployed `deployed`."""

from django.db import migrations, models


def status_rename(apps, schema_editor):
    apps.get_model("comparisons", "Contender").objects.filter(status="standing").update(status="deployed")


class Migration(migrations.Migration):
    dependencies = [
        ("comparisons", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(status_rename, migrations.RunPython.noop, elidable=True),
        migrations.AlterField(
            model_name="contender",
            name="status",
            field=models.CharField(
                choices=[
                    ("waiting", "Waiting"),
                    ("deployed", "Deployed"),
                    ("refused", "Deployment failed"),
                    ("different", "Different responses"),
                    ("same", "Same responses"),
                ],
                default="waiting",
                max_length=12,
            ),
        ),
    ]
