"""Tables that a model had under another app: taken over where they are there, made where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState


class CreateOrRename(migrations.CreateModel):
    """Create the table of a model, or rename the table and the columns that an earlier app had for it."""

    def __init__(self, former_table: str, former_columns: Mapping[str, str], **values: Any) -> None:
        super().__init__(**values)
        self.former_table, self.former_columns = former_table, former_columns

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        connection, table = schema_editor.connection, to_state.apps.get_model(app_label, self.name)._meta.db_table
        with connection.cursor() as cursor:
            if self.former_table not in connection.introspection.table_names(cursor):
                super().database_forwards(app_label, schema_editor, from_state, to_state)
                return
            described = connection.introspection.get_table_description(cursor, self.former_table)
        schema_editor.alter_db_table(to_state.apps.get_model(app_label, self.name), self.former_table, table)
        for column in described:
            if column.name in self.former_columns:
                names = {"table": table, "old_column": column.name, "new_column": self.former_columns[column.name]}
                quoted = {key: schema_editor.quote_name(name) for key, name in names.items()}
                schema_editor.execute("ALTER TABLE {table} RENAME COLUMN {old_column} TO {new_column}".format(**quoted))


def forget_app(label: str, new: str, models: Mapping[str, str]) -> migrations.RunPython:
    """What else names the earlier app: content types, and the record of its migrations."""

    def forwards(apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
        types = apps.get_model("contenttypes", "ContentType").objects
        for old, name in models.items():
            types.filter(app_label=label, model=old).update(app_label=new, model=name)
        MigrationRecorder(schema_editor.connection).migration_qs.filter(app=label).delete()

    return migrations.RunPython(forwards, migrations.RunPython.noop, elidable=True)
