"""Name web servers in the audit log as the panel does now: action, kind of object, and fields."""

from django.db import migrations
from django.db.models import F, Value
from django.db.models.functions import Replace

from migrations.unsquashed.json_keys import rename_keys

NAMES = {"install": "web_server"}


def words_rename(apps, schema_editor):
    entries = apps.get_model("audit", "AuditEntry")
    rows = entries._default_manager
    rows.filter(object_type="hosts.engineinstall").update(object_type="hosts.webserver")
    rows.filter(action__startswith="install.").update(
        action=Replace(F("action"), Value("install."), Value("web_server."))
    )
    rows.filter(action="site.install").update(action="site.web_server")
    for field in ("before", "after"):
        rename_keys(entries, field, NAMES)


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(words_rename, migrations.RunPython.noop, elidable=True),
    ]
