"""Two admins plan and confirm the same site at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from panel.accounts.models import User
from panel.core.errors import ApplicationError
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.planning import services
from panel.websites.models import Site
from tests.deployments.sample_plans import shop
from tests.support.cast import Cast

TRIES = 8


def plan_and_confirm(actor: User, site: Site, together: Barrier) -> str:
    """ "confirmed", or the message with which the panel refused."""
    try:
        together.wait()
        (deployment,) = services.deployment_plan(actor=actor, sites=[site])
        services.deployment_confirm(actor=actor, deployment=deployment)
    except ApplicationError as error:
        return error.message
    finally:
        connection.close()
    return "confirmed"


@pytest.mark.django_db(transaction=True)
def test_concurrent_plans_of_one_site_are_confirmed_or_rejected(people: Cast) -> None:
    site = shop(people)
    with ThreadPoolExecutor(2) as threads:
        for _try in range(TRIES):
            together = Barrier(2)
            asked = [threads.submit(plan_and_confirm, actor, site, together) for actor in (people.owner, people.admin)]
            answers = [future.result() for future in asked]
            assert "confirmed" in answers
            confirmed = Deployment.objects.filter(status=DeploymentStatus.QUEUED)
            assert confirmed.count() == answers.count("confirmed") == 1
            Deployment.objects.update(status=DeploymentStatus.CANCELLED)
