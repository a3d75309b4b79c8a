"""Record the team of each entry's object as it is now."""

from collections import defaultdict

from django.db import migrations

_PART = 500
_TEAM = {
    "websites.site": "team",
    "websites.certificate": "team",
    "websites.serverblock": "site__team",
    "websites.location": "block__site__team",
    "websites.upstream": "site__team",
    "websites.phppool": "site__team",
    "deployments.revision": "site__team",
    "deployments.drift": "site__team",
    "deployments.deployment": "items__site__team",
    "publishing.release": "site__team",
    "publishing.publication": "site__team",
    "benchmarks.scenario": "team",
    "benchmarks.run": "targets__site__team",
}


def record_teams(apps, schema_editor):
    entries = apps.get_model("audit", "AuditEntry").objects.order_by()
    for label, path in _TEAM.items():
        teams = defaultdict(set)
        for pk, team in apps.get_model(label).objects.order_by().values_list("pk", path).distinct().iterator():
            teams[pk].add(team)
        of_team = defaultdict(list)
        for pk, found in teams.items():
            if len(found) == 1 and None not in found:
                of_team[found.pop()].append(str(pk))
        for team, ids in of_team.items():
            for start in range(0, len(ids), _PART):
                part = ids[start : start + _PART]
                entries.filter(object_type=label, object_id__in=part).update(team_id=team)


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0002_newest"),
        ("benchmarks", "0001_squashed"),
        ("deployments", "0020_newest"),
        ("publishing", "0002_moves"),
        ("websites", "0014_maintenance"),
    ]

    operations = [migrations.RunPython(record_teams, migrations.RunPython.noop)]
