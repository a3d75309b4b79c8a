"""A trial on real servers: copies beside the site, the same answers, one run, nothing left, and the switch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from panel.benchmarks.models import RunStatus, Scenario
from panel.benchmarks.selectors import runs_visible
from panel.core.errors import ApplicationError, Conflict
from panel.deployments.execution import deployment_execute
from panel.hosts.models import JobStatus
from panel.trials import execution, services
from panel.trials.comparing import Verdict
from panel.trials.models import Contender, ContenderStatus, Trial, TrialPhase
from panel.websites import services as websites
from panel.websites.models import Site
from tests.support.http import ask
from tests.trials.conftest import Stand, logged

pytestmark = pytest.mark.xdist_group("trials")


def load(**values: Any) -> dict[str, Any]:
    arguments = {"concurrency": 2, "requests": 50}
    given = {"name": "Short", "tool": "ab", "arguments": arguments, "paths": ["/"], "rounds": 3, "warmup_s": 0}
    return services.load_of(Scenario(**(given | values)))


def tried(stand: Stand, **values: Any) -> Trial:
    owner = stand.machine.people.owner
    trial = services.trial_create(actor=owner, site=stand.site, installs=stand.others, load=load(**values))
    execution.trial_execute(trial.uuid)
    trial.refresh_from_db()
    return trial


def statuses(trial: Trial) -> list[str]:
    return list(trial.contenders.values_list("status", flat=True))


def files_of(stand: Stand) -> set[str]:
    return {str(path) for path in stand.machine.root.rglob("*") if "trial" in path.name and path.is_file()}


def test_three_servers_are_measured_with_the_same_site_and_nothing_is_left(stand: Stand) -> None:
    trial = tried(stand)
    assert trial.status == JobStatus.SUCCEEDED, trial.error
    assert statuses(trial) == [ContenderStatus.SAME] * 3
    assert trial.run is not None
    assert trial.run.status in (RunStatus.FINISHED, RunStatus.INVALID)
    assert [target["label"] for target in trial.run.summary["targets"]] == [
        i.get_engine_display() for i in stand.installs.values()
    ]
    assert Site.objects.get() == stand.site
    assert files_of(stand) == set()
    assert stand.machine.answers("shop", "this is shop")
    assert len(stand.log.read_text().splitlines()) < 10  # what verified the deployment; no load
    assert runs_visible(stand.machine.people.owner).get() == trial.run


def test_a_server_that_answers_otherwise_is_named_and_left_out(stand: Stand) -> None:
    admin = stand.machine.people.admin
    websites.snippet_create(actor=admin, site=stand.site, engine="native", text="return 200 other;", block=stand.block)
    stand.machine.people.owner.role = "admin"
    stand.machine.people.owner.save()
    trial = tried(stand)
    by_label = {row.label: row for row in trial.contenders.all()}
    native = by_label["gallop"]
    assert native.status in (ContenderStatus.DIFFERENT, ContenderStatus.REFUSED)
    assert native.detail
    assert trial.status == JobStatus.SUCCEEDED, trial.error
    assert len(trial.run.summary["targets"]) == 2
    with pytest.raises(ApplicationError, match="did not answer like"):
        services.trial_switch(actor=stand.machine.people.owner, contender=native)


def test_a_site_that_answers_nothing_good_is_not_tried_further(stand: Stand) -> None:
    trial = tried(stand, paths=["/missing"])
    assert trial.status == JobStatus.FAILED
    assert "404" in trial.error
    assert Site.objects.count() == 1
    assert files_of(stand) == set()


def test_the_winner_serves_the_site_in_one_step_and_the_way_back_is_another(stand: Stand) -> None:
    trial = tried(stand)
    owner = stand.machine.people.owner
    for position, name in ((2, "gallop"), (0, "nginx")):
        deployment = services.trial_switch(actor=owner, contender=trial.contenders.get(position=position))
        deployment_execute(deployment.uuid)
        deployment.refresh_from_db()
        assert deployment.status == "succeeded", deployment.error
        assert name in ask(stand.machine.port, "/", host="shop.example").headers["server"]
        trial.site.refresh_from_db()


def test_a_trial_that_lost_its_worker_takes_its_copies_away(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    monkeypatch.setattr(execution, "compare", die)
    owner = stand.machine.people.owner
    trial = services.trial_create(actor=owner, site=stand.site, installs=stand.others, load=load())
    with pytest.raises(Killed):
        execution.trial_execute(trial.uuid)
    assert Site.objects.count() == 4
    Trial.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    assert execution.orphans_queue() == [trial.uuid]
    execution.trial_execute(trial.uuid)
    trial.refresh_from_db()
    assert (trial.status, trial.error) == (JobStatus.FAILED, execution.WORKER_GONE)
    assert Site.objects.count() == 1
    assert files_of(stand) == set()


def test_a_cancelled_trial_takes_its_copies_away(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = stand.machine.people.owner
    trial = services.trial_create(actor=owner, site=stand.site, installs=stand.others, load=load())
    real = execution.compare

    def cancelled_meanwhile(*arguments: Any, **named: Any) -> Verdict:
        services.trial_cancel(actor=owner, trial=Trial.objects.get())
        return real(*arguments, **named)

    monkeypatch.setattr(execution, "compare", cancelled_meanwhile)
    execution.trial_execute(trial.uuid)
    trial.refresh_from_db()
    assert (trial.status, trial.phase, trial.run) == (JobStatus.CANCELLED, TrialPhase.CLEAN, None)
    assert Site.objects.count() == 1
    with pytest.raises(Conflict):
        services.trial_cancel(actor=owner, trial=trial)


def test_its_own_log_is_replayed(stand: Stand) -> None:
    logged(stand, ["/?secret=1", "/", "/index.html"])
    found = services.load_from_log(actor=stand.machine.people.owner, site=stand.site)
    assert set(found["paths"]) == {"/", "/index.html"}
    assert found["tool"] == "wrk"


def test_what_cannot_be_tried_is_refused_before_anything_is_queued(stand: Stand) -> None:
    people = stand.machine.people
    with pytest.raises(ApplicationError, match="at least one other"):
        services.trial_create(actor=people.owner, site=stand.site, installs=[stand.installs["nginx"]], load=load())
    with pytest.raises(PermissionDenied):
        services.trial_create(actor=people.viewer, site=stand.site, installs=stand.others, load=load())
    services.trial_create(actor=people.owner, site=stand.site, installs=stand.others, load=load())
    with pytest.raises(Conflict, match="under way"):
        services.trial_create(actor=people.owner, site=stand.site, installs=stand.others, load=load())
    assert (Trial.objects.count(), Contender.objects.count()) == (1, 3)
