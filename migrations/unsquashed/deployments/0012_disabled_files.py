"""Name the revisions of disabled files: `disabled_revision`, `disabled_before`, `disabled_after`."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0011_live_versions"),
    ]

    operations = [
        migrations.RenameField(model_name="sitestate", old_name="resting", new_name="disabled_revision"),
        migrations.RenameField(model_name="deploymentitem", old_name="rests", new_name="disabled_after"),
        migrations.RenameField(model_name="deploymentitem", old_name="rested", new_name="disabled_before"),
    ]
