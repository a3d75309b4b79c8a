"""Model field for the plan of a deployment."""

from __future__ import annotations

from typing import Any

from django.db import models

from panel.deployments.plan import Plan, plan_from_json, plan_to_json


class PlanField(models.JSONField):
    """Model field that is a `Plan` in Python and JSON in the database."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Plan | None:
        data = super().from_db_value(value, expression, connection)
        return None if data is None else plan_from_json(data)

    def get_prep_value(self, value: Any) -> Any:
        return super().get_prep_value(plan_to_json(value) if isinstance(value, Plan) else value)
