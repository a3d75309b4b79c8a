"""Record which version of a draft is live, and name versions in plans instead of a digest of rows."""

from django.db import migrations, models
from django.db.models import F
from django.db.models.functions import Cast


def live_versions_set(apps, schema_editor):
    """Drafts that were not changed since their deployment are live as they are. Open plans name no version: they are
    outdated and are made again."""
    states = apps.get_model("deployments", "SiteState").objects
    for pk, version in states.filter(deployed_at__gte=F("site__updated_at")).values_list("pk", "site__version"):
        states.filter(pk=pk).update(live_version=version)
    deployments = apps.get_model("deployments", "Deployment").objects
    for pk, plan in deployments.values_list("pk", Cast("plan", models.JSONField())).iterator():
        plan["sites"] = [{key: line[key] for key in line if key != "inputs"} for line in plan.get("sites", [])]
        deployments.filter(pk=pk).update(plan=plan)


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0010_web_server_keys"),
        ("websites", "0010_site_version"),
    ]

    operations = [
        migrations.AddField(model_name="deploymentitem", name="version", field=models.PositiveIntegerField(null=True)),
        migrations.AddField(model_name="sitestate", name="live_version", field=models.PositiveIntegerField(null=True)),
        migrations.RunPython(live_versions_set, migrations.RunPython.noop, elidable=True),
    ]
