"""Deployments that a newer release planned, seen by the worker and the pages of this one during an upgrade."""

from __future__ import annotations

import json

import pytest
from django.db import connection

from panel.core.claims import Attempt
from panel.deployments.execution import services as execution
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.plan import PLAN_FORMAT
from panel.deployments.planning import services as planning
from panel.hosts.models import Engine, WebServer
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.support.cast import signed_in


def from_newer_release(deployment: Deployment) -> None:
    """Make the row what a newer release writes: a higher format, and keys that this release does not know."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT plan FROM deployments_deployment WHERE id = %s", [deployment.pk])
        stored = cursor.fetchone()[0]
        plan = json.loads(stored) if isinstance(stored, str) else stored
        plan["later"] = True
        for part in ("sites", "files"):
            plan[part][0]["later"] = "value"
        cursor.execute("UPDATE deployments_deployment SET plan = %s WHERE id = %s", [json.dumps(plan), deployment.pk])
    Deployment.objects.filter(pk=deployment.pk).update(plan_format=PLAN_FORMAT + 1)


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_worker_leaves_plan_of_newer_release_queued_for_its_workers(placed: tuple[Machine, WebServer]) -> None:
    machine, web_server = placed
    deployment = machine.plan(machine.site("shop", web_server))
    assert deployment.plan_format == PLAN_FORMAT
    planning.deployment_confirm(actor=machine.people.owner, deployment=deployment)
    from_newer_release(deployment)
    assert deployment.uuid in execution.orphans_queue()
    assert execution.deployment_execute(deployment.uuid) == Attempt.NOTHING
    deployment.refresh_from_db()
    assert (deployment.status, deployment.error, deployment.claimed_by) == (DeploymentStatus.QUEUED, "", "")
    page = signed_in(machine.people.owner).get(f"/deployments/{deployment.uuid}")
    assert page.status_code == 200 and "shop" in page.content.decode()
    assert caller_of(machine.people.owner).get(f"deployments/{deployment.uuid}/").status_code == 200

    Deployment.objects.filter(pk=deployment.pk).update(plan_format=PLAN_FORMAT)
    assert execution.deployment_execute(deployment.uuid) == Attempt.DONE
    deployment.refresh_from_db()
    assert deployment.status == DeploymentStatus.SUCCEEDED and machine.answers("shop", "this is shop")
