"""Name host jobs and server comparisons in the audit log as the panel does now."""

from django.db import migrations
from django.db.models import F, Value
from django.db.models.functions import Replace

from migrations.unsquashed.json_keys import rename_keys

OBJECTS = {"hosts.hostoperation": "hosts.hostjob", "trials.trial": "comparisons.comparison"}
ACTIONS = {"operation.": "host_job.", "trial.": "comparison."}
NAMES = {"mail_notices": "mail_alerts"}


def words_rename(apps, schema_editor):
    entries = apps.get_model("audit", "AuditEntry")
    rows = entries._default_manager
    for old, new in OBJECTS.items():
        rows.filter(object_type=old).update(object_type=new)
    for old, new in ACTIONS.items():
        rows.filter(action__startswith=old).update(action=Replace(F("action"), Value(old), Value(new)))
    for field in ("before", "after"):
        rename_keys(entries, field, NAMES)


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0002_web_server"),
    ]

    operations = [
        migrations.RunPython(words_rename, migrations.RunPython.noop, elidable=True),
    ]
