"""Give plans their typed form, and move what follows a deployment from the plan's JSON into columns."""

import django.db.models.deletion
from django.db import migrations, models

import panel.deployments.fields
import panel.deployments.plan

_SITE = ("id", "name", "install", "number", "previous", "rests", "rested", "inputs")
_FILE = (
    "path",
    "site",
    "install",
    "action",
    "mode",
    "sha256",
    "link",
    "secret",
    "keep_owner",
    "old_sha256",
    "expect",
    "found_sha256",
    "diff",
    "renamed_from",
    "renamed_to",
)
_WARNING = ("site", "where", "text", "nearest", "place")


def _only(row, names):
    """The known keys of `row`; a null is left out where the typed plan has text, so that its default counts."""
    may_be_null = {"number", "previous", "rests", "rested", "found_sha256", "place"}
    return {name: row[name] for name in names if name in row and (row[name] is not None or name in may_be_null)}


def _typed(plan):
    main = (plan.get("after") or {}).get("main") or {}
    return {
        "sites": [_only(row, _SITE) | {"install": str(row.get("install", ""))} for row in plan.get("sites", [])],
        "installs": plan.get("installs", []),
        "files": [_only(row, _FILE) for row in plan.get("files", [])],
        "warnings": [_only(row, _WARNING) for row in plan.get("warnings", [])],
        "drifted": plan.get("drifted", []),
        "unchecked": plan.get("unchecked", ""),
        "main_files": main.get("files", []),
    }


def _on_success(after):
    if "delete" in after:
        return "delete"
    if after.get("enabled") is False:
        return "disable"
    if after.get("main"):
        return "main"
    return "move" if after.get("install") else ""


def plans_type(apps, schema_editor):
    """Rewrite every stored plan once; `then` and `waits_for` named the same pairs from both ends."""
    deployments = apps.get_model("deployments", "Deployment").objects
    installs = set(apps.get_model("hosts", "EngineInstall").objects.values_list("pk", flat=True))
    waiting = {}
    for row in deployments.only("pk", "plan").iterator():
        after = row.plan.get("after") or {}
        target = after.get("install") or (after.get("main") or {}).get("install")
        deployments.filter(pk=row.pk).update(
            plan=_typed(row.plan), on_success=_on_success(after), target=target if target in installs else None
        )
        if "waits_for" in after:
            waiting[row.pk] = after["waits_for"]
    for pk, first in waiting.items():
        deployments.filter(pk=pk).update(waits_for=deployments.filter(uuid=first).first())


class Migration(migrations.Migration):
    dependencies = [
        ("deployments", "0006_superseded_plans"),
        ("hosts", "0007_own_listeners"),
    ]

    operations = [
        migrations.AddField(
            model_name="deployment",
            name="on_success",
            field=models.CharField(
                blank=True,
                choices=[
                    ("", "Nothing else"),
                    ("disable", "The sites are disabled"),
                    ("delete", "The sites are deleted with their history"),
                    ("move", "The sites belong to the target web server"),
                    ("main", "The main file of the target web server is recorded"),
                ],
                default="",
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="deployment",
            name="target",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="hosts.engineinstall"
            ),
        ),
        migrations.AddField(
            model_name="deployment",
            name="waits_for",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="followers",
                to="deployments.deployment",
            ),
        ),
        migrations.RunPython(plans_type, migrations.RunPython.noop, elidable=True),
        migrations.AlterField(
            model_name="deployment",
            name="plan",
            field=panel.deployments.fields.PlanField(default=panel.deployments.plan.Plan),
        ),
    ]
