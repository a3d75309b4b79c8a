"""One page, one partial and one event stream for jobs of every kind, with the permissions of the kind."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from django.urls import reverse
from django.utils import timezone

from panel.accounts.models import User
from panel.api.jobs import _DESCRIBE
from panel.certificates.choices import OrderStep
from panel.certificates.models import AcmeAccount, AutomaticCertificate, Order
from panel.core.jobs import KINDS, Job, JobStatus
from panel.deployments.models import Deployment, DeploymentStatus
from panel.hosts.models import HostJob, HostJobKind
from panel.reports.choices import Outcome
from panel.reports.models import Channel, Delivery, Report
from tests.deployments.sample_plans import planned, shop
from tests.support.cast import Cast, cast, signed_in


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def job(people: Cast, **values: Any) -> HostJob:
    given: dict[str, Any] = {"host": people.host, "kind": HostJobKind.CHECK, "requested_by": people.admin}
    return HostJob.objects.create(**(given | values))


def delivery(people: Cast, **values: Any) -> Delivery:
    report = Report.objects.create(title="Weekly", outcome=Outcome.FIRST, headline="", content={}, team=people.team)
    report.teams.add(people.team)
    log = [{"at": "2026-11-25T10:00:00Z", "words": "The receiver answered 500.", "seconds": 1.5}]
    given: dict[str, Any] = {"report": report, "channel": Channel.MAIL, "target": "ann@shop.example", "log": log}
    return Delivery.objects.create(due_at=timezone.now(), **(given | values))


def order(people: Cast, **values: Any) -> Order:
    account = AcmeAccount.objects.create(name="le", team=people.team)
    automatic = AutomaticCertificate.objects.create(site=shop(people, "bakery"), account=account)
    given: dict[str, Any] = {"automatic": automatic, "requested_by": people.owner, "step": OrderStep.CHALLENGE}
    made = Order.objects.create(**(given | values))
    made.records.create(step=OrderStep.ORDER, text="Paddock ordered a certificate for bakery.example.")
    return made


def text(person: User, name: str, uuid: UUID) -> str:
    answer = signed_in(person).get(reverse(name, args=[uuid]))
    assert answer.status_code == 200
    return answer.content.decode()


async def _listen(person: User, uuid: UUID) -> tuple[int, str]:
    client = AsyncClient(HTTP_HOST="localhost")
    await client.aforce_login(person, backend="django.contrib.auth.backends.ModelBackend")
    answer = await client.get(reverse("job-events", args=[uuid]))
    if not answer.streaming:
        return answer.status_code, ""
    return answer.status_code, "".join([part.decode() async for part in answer.streaming_content])


def listen(person: User, uuid: UUID) -> tuple[int, str]:
    return async_to_sync(_listen)(person, uuid)


def test_every_model_of_a_job_has_a_kind() -> None:
    names = {
        "deployment",
        "run",
        "suite",
        "comparison",
        "host_job",
        "delivery",
        "certificate_order",
        "rollout",
        "preview",
        "publication",
    }
    assert set(KINDS) == names
    assert {model.__name__ for model in Job.__subclasses__()} == {
        *("HostJob", "Deployment", "Run", "Comparison", "Delivery", "Order", "Rollout", "Preview", "Publication")
    }


def test_page_of_a_job_says_what_the_job_waits_for(people: Cast) -> None:
    row = job(people, progress="web-1 is busy with a deployment.")
    page = text(people.viewer, "job", row.uuid)
    assert "web-1 is busy with a deployment." in page and "ada" in page
    assert f'data-events="{reverse("job-events", args=[row.uuid])}"' in page
    assert reverse("hosts:cancel", args=["web-1", row.pk]) not in page
    assert reverse("hosts:cancel", args=["web-1", row.pk]) in text(people.admin, "job", row.uuid)


def test_page_of_an_ended_job_has_its_error_and_no_stream(people: Cast) -> None:
    row = job(people, status=JobStatus.FAILED, error="The host does not answer.", finished_at=timezone.now())
    page = text(people.viewer, "job", row.uuid)
    assert "The host does not answer." in page and "data-events" not in page


def test_page_of_a_delivery_has_its_attempts(people: Cast) -> None:
    page = text(people.viewer, "job", delivery(people).uuid)
    assert "The receiver answered 500. (1.5 s)" in page and "Waiting for a free worker." in page


def test_page_of_an_order_has_its_steps_and_no_key(people: Cast) -> None:
    row = order(people, status=JobStatus.RUNNING, key_pem="SECRET-KEY")
    page = text(people.viewer, "job", row.uuid)
    assert "Paddock ordered a certificate for bakery.example." in page and "Prove the domain names." in page
    assert f'data-events="{reverse("job-events", args=[row.uuid])}"' in page and "SECRET-KEY" not in page
    answer = signed_in(people.viewer).get(f"/api/v1/jobs/{row.uuid}/")
    found = answer.json()
    assert (found["type"], found["is_finished"], found["result"]) == ("certificate_order", False, None)
    steps = {step["name"]: (step["status"], step["log"]) for step in found["steps"]}
    assert steps["Order the certificate"] == ("succeeded", "Paddock ordered a certificate for bakery.example.")
    assert steps["Prove the domain names"] == ("running", "") and "SECRET-KEY" not in answer.content.decode()
    assert signed_in(people.viewer).get(found["links"]["detail"]).status_code == 200


def test_page_of_a_waiting_order_says_until_when_and_why(people: Cast) -> None:
    until = timezone.now().replace(year=2099, month=1, day=2, hour=3, minute=4, second=5)
    row = order(
        people, retry_at=until, progress="The certificate authority accepts no orders of this account at the moment."
    )
    page = text(people.viewer, "job", row.uuid)
    assert (
        "Waiting until 2099-01-02 03:04:05 UTC for the next attempt. The certificate authority accepts no orders"
        in page
    )


def test_job_with_a_page_of_its_own_leads_there(people: Cast) -> None:
    deployment = planned(people, shop(people))
    answer = signed_in(people.viewer).get(reverse("job", args=[deployment.uuid]))
    assert answer["Location"] == reverse("deployments:detail", args=[deployment.uuid])


@pytest.mark.parametrize("name", ["job", "job-live", "job-events"])
def test_job_of_another_team_is_not_found(people: Cast, name: str) -> None:
    for row in (planned(people, shop(people)), delivery(people), order(people)):
        assert signed_in(people.outsider).get(reverse(name, args=[row.uuid])).status_code == 404
    assert signed_in(people.admin).get(reverse(name, args=[uuid4()])).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_stream_of_every_kind_ends_with_the_job(people: Cast) -> None:
    deployment = planned(people, shop(people))
    Deployment.objects.filter(pk=deployment.pk).update(status=DeploymentStatus.FAILED, error="No space left.")
    ended = {
        deployment.uuid: ("No space left.", "failed"),
        job(people, status=JobStatus.SUCCEEDED).uuid: ("Done", "succeeded"),
        delivery(people, status=JobStatus.SUCCEEDED).uuid: ("The receiver answered 500.", "succeeded"),
        order(people, status=JobStatus.FAILED, error="The name is unknown.").uuid: ("The name is unknown.", "failed"),
    }
    for uuid, (words, status) in ended.items():
        code, told = listen(people.viewer, uuid)
        assert code == 200 and told.startswith("event: live\n")
        assert words in told or status != "failed"
        assert told.endswith(f"event: done\ndata: {status}\n\n")
        assert listen(people.outsider, uuid)[0] == (200 if words == "Done" else 404)


def test_job_kinds_name_the_api_form(people: Cast) -> None:
    answer = signed_in(people.viewer).get(f"/api/v1/jobs/{delivery(people).uuid}/").json()
    assert (answer["type"], answer["steps"][0]["log"]) == ("delivery", "The receiver answered 500.")


def test_delivery_cannot_be_cancelled(people: Cast) -> None:
    answer = signed_in(people.admin).post(f"/api/v1/jobs/{delivery(people).uuid}/cancel/")
    assert answer.status_code in (403, 409)


def test_every_kind_of_job_is_described_over_the_api() -> None:
    assert set(_DESCRIBE) == set(KINDS)
