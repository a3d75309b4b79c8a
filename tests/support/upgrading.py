"""A database of an earlier version with one row in every table.

    python -m tests.support.upgrading first   make one of the first version; the environment names an empty database
    python -m tests.support.upgrading last    make one of the version before migrations were squashed
    python -m tests.support.upgrading count   after `manage.py migrate`: how many rows there are now
    python -m tests.support.upgrading read    after `manage.py migrate`: what is in it now

All print JSON: how many rows each model has, by its label; `read` also some values.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django
from django.utils import timezone

# The last migrations of the first version whose databases are kept.
OLD = {
    "accounts": "0005_guess_budget",
    "api": "0001_initial",
    "audit": "0001_initial",
    "benchmarks": "0004_scenario_names",
    "deployments": "0008_shared_job_fields",
    "hosts": "0008_shared_job_fields",
    "imports": "0001_initial",
    "notices": "0001_initial",
    "reports": "0003_shared_job_fields",
    "trials": "0004_shared_job_fields",
    "websites": "0007_list_services_in_use",
}
FORMER_APPS = ("trials", "notices")
PLAN = {
    "sites": [{"id": 1, "name": "shop", "install": "nginx on web-1", "number": None, "rests": 1}],
    "installs": [1],
    "files": [{"path": "/etc/nginx/shop", "site": "shop", "install": 1, "action": "put", "mode": 420}],
}
OLD_ROWS: dict[str, dict[str, Any]] = {
    "audit.AuditEntry": {"action": "site.install", "object_type": "hosts.engineinstall", "after": {"install": 1}},
    "benchmarks.Run": {"parameters": {"stand": {"suite": "php"}}, "fingerprint": {"stands": {"web-1": {}}}},
    "benchmarks.SuiteRun": {"plan": [], "setups": [{"slug": "nginx", "install": 1}]},
    "deployments.Deployment": {"plan": PLAN, "target_id": 1},
    "hosts.EngineInstall": {"engine": "nginx", "label": "own"},
    "hosts.HostOperation": {"params": {"install": 1, "action": "stop"}},
    "trials.Contender": {"status": "standing"},
    "notices.Told": {"key": "unreachable:web-1"},
    "accounts.User": {"mail_notices": True},
}


def fill(apps: Any, given: dict[str, dict[str, Any]]) -> dict[str, int]:
    """One row of every model of the panel, each with rows for the foreign keys that it must have; rows by label."""
    made: dict[str, Any] = {}

    def row(model: Any) -> Any:
        """The one row of the model, made when it is first asked for."""
        label = model._meta.label
        if label not in made:
            values = {
                field.attname: row(field.related_model).pk if field.is_relation else _value(field)
                for field in model._meta.concrete_fields
                if not field.primary_key and not field.null and field.name not in given.get(label, {})
                if field.is_relation or not field.has_default()
            }
            made[label] = model(**values, **given.get(label, {}))
            made[label].save(force_insert=True)
        return made[label]

    if given:
        row(apps.get_model("hosts", "EngineInstall"))  # which the deployment names
    for model in apps.get_models():
        if model._meta.app_label in {*OLD, "comparisons", "alerts"}:
            row(model)
    return {label: type(found)._default_manager.count() for label, found in made.items()}


def _value(field: Any) -> Any:
    kind = field.get_internal_type()
    if field.choices:
        return field.choices[0][0]
    if kind in ("CharField", "TextField", "SlugField"):
        return "1"
    return {"JSONField": {}, "DateTimeField": timezone.now(), "DateField": timezone.now().date()}.get(kind, 1)


def read() -> dict[str, Any]:
    """Values of rows that were renamed, through the models of this version."""
    from panel.accounts.models import User
    from panel.alerts.models import AlertMail, SentAlert
    from panel.audit.models import AuditEntry
    from panel.benchmarks.models import Run, SuiteRun
    from panel.comparisons.models import Comparison
    from panel.deployments.models import Deployment, SiteState, WebServerState
    from panel.hosts.models import HostJob, WebServer
    from panel.websites.models import Site

    comparison = Comparison.objects.get()
    web_server, deployment = WebServer.objects.get(), Deployment.objects.get()
    entry = AuditEntry.objects.get(object_type="hosts.webserver")
    return {
        "web server": [web_server.label, web_server.host.web_servers.count()],
        "site has one": Site.objects.filter(web_server=web_server).count(),
        "state": WebServerState.objects.get().web_server_id == web_server.pk,
        "plan": [deployment.plan.web_servers, deployment.plan.files[0].web_server, deployment.plan.sites[0].web_server],
        "job": HostJob.objects.get().params,
        "disabled": [deployment.plan.sites[0].disabled_after, SiteState.objects.get().disabled_revision_id],
        "test bed": [Run.objects.get().parameters, Run.objects.get().fingerprint],
        "setups": SuiteRun.objects.get().setups,
        "audit": [entry.action, entry.after],
        "comparison": [comparison.contenders.get().comparison_id == comparison.pk, comparison.contenders.get().status],
        "alerts": [AlertMail.objects.count(), SentAlert.objects.get().key, SentAlert.objects.get().sent_at is not None],
        "mails": User.objects.get().mail_alerts,
    }


def counts(apps: Any) -> dict[str, int]:
    return {model._meta.label: model._default_manager.count() for model in apps.get_models()}


def main(action: str) -> None:
    from django.conf import settings

    if action == "first":
        for app in FORMER_APPS:
            settings.INSTALLED_APPS.append(f"tests.support.former_apps.{app}")
    django.setup()
    from django.apps import apps
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    from panel.core.management.commands.migrate import unsquashed

    if action in ("count", "read"):
        json.dump({"rows": counts(apps), "values": read() if action == "read" else {}}, sys.stdout)
        return
    with unsquashed():
        executor = MigrationExecutor(connection)
        targets = list(OLD.items()) if action == "first" else executor.loader.graph.leaf_nodes()
        executor.migrate(targets)
        state = executor.loader.project_state(targets).apps
        json.dump({"rows": fill(state, OLD_ROWS if action == "first" else {})}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
