"""Indexes for parts of words in names."""

from django.db import migrations

from panel.core.word_part_indexes import word_part_indexes

_COLUMNS = ("object_label", "actor_label")


class Migration(migrations.Migration):
    dependencies = [("audit", "0003_teams_of_entries")]

    operations = [
        word_part_indexes({f"audit_search_{column}": ("audit_auditentry", column) for column in _COLUMNS}),
    ]
