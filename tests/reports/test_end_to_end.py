"""From a due date to mail and webhook, with a real nginx and a real load tool."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from panel.accounts.models import User
from panel.benchmarks.models import Run
from panel.benchmarks.runs import execution, measuring
from panel.benchmarks.runs.services import scenario_create
from panel.reports import delivering, watching
from panel.reports.choices import Kind, Notify
from panel.reports.models import Delivery, Report, Schedule
from panel.reports.services import schedule_create
from tests.benchmarks.conftest import LiveSites, live_sites  # noqa: F401 - a fixture
from tests.reports.test_delivery import Mailbox, Receiver, mailbox, receiver  # noqa: F401 - fixtures
from tests.reports.test_due_dates import DUE, due

pytestmark = pytest.mark.django_db(transaction=True)


def measured(schedule: Schedule, days: int) -> Report:
    """The date that comes `days` after the first: begun, measured, reported."""
    moment = DUE + timedelta(days=days)
    due(schedule, moment)
    watching.look(moment)
    run = Run.objects.get(status="queued")
    assert execution.run_execute(run.uuid) == "done"
    watching.look(moment + timedelta(minutes=1))
    report = Report.objects.first()
    assert report is not None and report.run == run
    return report


def test_due_date_leads_to_mail_and_webhook(
    live_sites: LiveSites,  # noqa: F811
    admin: User,
    mailbox: Mailbox,  # noqa: F811
    receiver: Receiver,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measuring, "IDLE_S", 0.0)  # what is looked at here is not the figures
    load = {"requests": 400, "concurrency": 2, "keepalive": True}
    values = {"arguments": load, "paths": ["/"], "rounds": 3, "warmup_s": 0, "timeout_s": 60}
    scenario = scenario_create(actor=admin, name="Nightly load", tool="ab", **values)
    schedule = schedule_create(
        actor=admin,
        name="Nightly",
        cron="0 2 * * *",
        kind=Kind.SCENARIO,
        scenario=scenario,
        recipients=["anna@example.com"],
        attachments=["pdf"],
        notify=Notify.ALWAYS,
        webhook_url=receiver.url,
        webhook_secret="a secret of the webhook",
        sites=[live_sites.one, live_sites.two],
    )
    first, second = measured(schedule, 0), measured(schedule, 1)
    assert first.outcome in ("first", "invalid"), first.headline
    assert second.content["sections"][0]["tables"][0]["rows"], "there are no figures"
    facts = str(second.content)
    assert "Requests 400, Concurrent connections 2, Keep connections open" in facts, "not as the API calls them"
    assert "'native " not in facts
    for row in Delivery.objects.all():
        delivering.attempt(row.uuid)
    assert set(Delivery.objects.values_list("status", flat=True)) == {"succeeded"}
    assert [message["To"] for message in mailbox.messages] == ["anna@example.com"] * 2
    told = [json.loads(body)["report"]["uuid"] for _, _, body in receiver.requests]
    assert told == [str(first.uuid), str(second.uuid)]
