"""Migrations leave the database usable for the previous release, whose processes run on during an upgrade."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

# Migrations that were checked by hand, with the reason: {"sites.0031_drop_notes": "no release since 1.2 reads notes"}.
REVIEWED: dict[str, str] = {
    # A key of a site in both; the previous release shows a second pool of a site like the first.
    "fpm.0002_pools_per_host": "one-to-one key to foreign key: the column stays, without its unique constraint",
}
GONE = (
    migrations.RemoveField,
    migrations.RenameField,
    migrations.DeleteModel,
    migrations.RenameModel,
    migrations.AlterModelTable,
)
NARROWING = (migrations.AddConstraint, migrations.AlterUniqueTogether)
UNKNOWN = (migrations.RunSQL, migrations.SeparateDatabaseAndState)


def problem(operation: Operation, state: ProjectState, app: str, own: set[str]) -> str:
    """Say how the operation breaks code that does not know it; "" if it does not. `own` are models of its migration."""
    if isinstance(operation, GONE):
        return "takes away what the previous release reads"
    if isinstance(operation, UNKNOWN):
        return "cannot be judged: read docs/contributing/write-a-migration.md"
    if isinstance(operation, migrations.AddField) and operation.model_name_lower not in own:
        return _added(operation.field)
    if isinstance(operation, migrations.AlterField) and operation.model_name_lower not in own:
        before = state.models[app, operation.model_name_lower].get_field(operation.name)
        return _altered(before, operation.field)
    if isinstance(operation, NARROWING) and _model_of(operation) not in own:
        return "refuses rows that the previous release may write"
    return ""


def _model_of(operation: Operation) -> str:
    return str(getattr(operation, "model_name", "") or getattr(operation, "name", "")).lower()


def _added(field: models.Field[object, object]) -> str:
    has_value = field.null or field.many_to_many or field.db_default is not models.NOT_PROVIDED
    return "" if has_value else "needs null=True or db_default: the previous release inserts rows without the column"


def _altered(before: models.Field[object, object], after: models.Field[object, object]) -> str:
    if before.null and not after.null:
        return "makes a column NOT NULL into which the previous release writes NULL"
    if after.unique and not before.unique:
        return "refuses rows that the previous release may write"
    if before.get_internal_type() != after.get_internal_type():
        return "changes the type of a column that the previous release uses"
    if before.max_length and after.max_length and after.max_length < before.max_length:
        return "shortens a column into which the previous release writes more"
    return ""


def problems(migration: Migration, state: ProjectState) -> Iterator[str]:
    """One line for each operation that the previous release would not survive. Changes `state`."""
    app, own = migration.app_label, set()
    for operation in migration.operations:
        if isinstance(operation, migrations.CreateModel):
            own.add(operation.name_lower)
        if found := problem(operation, state, app, own):
            yield f"{app}.{migration.name}: {operation.describe()}: {found}"
        operation.state_forwards(app, state)


def test_migrations_keep_database_usable_for_previous_release() -> None:
    loader, found = MigrationLoader(None), list[str]()
    state = ProjectState()
    for key in loader.graph._generate_plan(loader.graph.leaf_nodes(), at_end=True):  # type: ignore[attr-defined]
        migration = loader.graph.nodes[key]
        is_reviewed = f"{key[0]}.{key[1]}" in REVIEWED
        is_ours = not is_reviewed and migration.__module__.startswith("migrations.") and not key[1].startswith("0001_")
        if is_ours:
            found += problems(migration, state)
        else:
            state = migration.mutate_state(state, preserve=False)
    assert found == []


def added(field: models.Field[object, object]) -> migrations.AddField:
    return migrations.AddField("thing", "extra", field)


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (added(models.TextField(default="")), "db_default"),
        (added(models.TextField(default="", db_default="")), ""),
        (added(models.TextField(null=True)), ""),
        (migrations.RemoveField("thing", "name"), "takes away"),
        (migrations.RenameField("thing", "name", "title"), "takes away"),
        (migrations.DeleteModel("thing"), "takes away"),
        (migrations.AlterField("thing", "name", models.CharField(max_length=10)), "NOT NULL"),
        (migrations.AlterField("thing", "name", models.CharField(max_length=5, null=True)), "shortens"),
        (migrations.AlterField("thing", "name", models.TextField(null=True)), "type"),
        (migrations.AlterField("thing", "name", models.CharField(max_length=20, null=True)), ""),
        (migrations.AddConstraint("thing", models.UniqueConstraint(fields=["name"], name="one")), "refuses rows"),
        (migrations.AddIndex("thing", models.Index(fields=["name"], name="thing_name")), ""),
        (migrations.RunSQL("DROP TABLE things"), "cannot be judged"),
    ],
)
def test_operation_that_breaks_previous_release_is_named(operation: Operation, words: str) -> None:
    state = ProjectState()
    name = models.CharField(max_length=10, null=True)
    migrations.CreateModel("thing", [("id", models.BigAutoField(primary_key=True)), ("name", name)]).state_forwards(
        "things", state
    )
    migration = Migration("0002_change", "things")
    migration.operations = [operation]
    found = list(problems(migration, state))
    assert bool(found) == bool(words) and words in "".join(found)
