"""Lists the local services that sites use, so that they can go on: for the one team that does, else for every team."""

from __future__ import annotations

from typing import Any

from django.db import migrations

from panel.rendering.targets import is_of_host, target_of


def services_list(apps: Any, schema_editor: Any) -> None:
    allowance = apps.get_model("websites", "Allowance")
    note = "Used by sites when local services were first listed."
    rows = []
    for (host, value), teams in _used(apps).items():
        only = next(iter(teams)) if len(teams) == 1 else None
        rows.append(
            allowance(kind="service", value=value, host_id=host, team_id=only, needs_review=only is None, note=note)
        )
    allowance.objects.bulk_create(rows, batch_size=500)


def _used(apps: Any) -> dict[tuple[int, str], set[int]]:
    """The teams whose sites name each local service, by host and service."""
    hosts = apps.get_model("hosts", "Host").objects.values_list("pk", "address", "facts")
    own = {pk: (address, facts.get("hostname", "")) for pk, address, facts in hosts}
    used: dict[tuple[int, str], set[int]] = {}
    for model, site in (("UpstreamServer", "upstream__site"), ("PhpPool", "site")):
        rows = apps.get_model("websites", model).objects.filter(**{f"{site}__install__isnull": False}).order_by()
        for address, host, team in rows.values_list("address", f"{site}__install__host", f"{site}__team").distinct():
            target = target_of(address)
            if is_of_host(target, own[host]):
                used.setdefault((host, str(target)), set()).add(team)
    return used


class Migration(migrations.Migration):
    dependencies = [("websites", "0006_allowances"), ("hosts", "0007_own_listeners")]
    operations = [migrations.RunPython(services_list, migrations.RunPython.noop)]
