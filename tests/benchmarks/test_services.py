"""Permissions for scenarios and runs; a run can measure only a deployed site."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError

from panel.accounts.models import Team, User
from panel.audit.models import AuditEntry
from panel.benchmarks import selectors
from panel.benchmarks.models import Run, Scenario
from panel.benchmarks.runs import targets
from panel.benchmarks.runs.services import run_create, run_delete, run_repeat, scenario_create, scenario_update
from panel.benchmarks.tools.arguments import clean
from panel.benchmarks.tools.commands import Endpoint
from panel.core.errors import ApplicationError, Conflict
from panel.deployments.models import SiteState, SiteStatus
from panel.hosts.models import Connection, Host, HostStatus, WebServer
from panel.websites.models import Listen, PhpPool, ServerBlock, ServerName, Site
from tests.benchmarks.conftest import QUICK, deployed, make_site
from tests.benchmarks.finished_runs import finished_run

pytestmark = pytest.mark.django_db

GOOD: dict[str, Any] = {"name": "New", "tool": "ab", "arguments": QUICK, "paths": ["/"]}


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"arguments": {**QUICK, "concurrency": "1; id"}}, "arguments", "concurrency: Enter a whole number"),
        ({"arguments": {**QUICK, "script": "x"}}, "arguments", "script: ab has no such argument"),
        ({"arguments": "-n 5"}, "arguments", "object of names and values"),
        ({"arguments": {}}, "arguments", "number of requests, or seconds"),
        ({"paths": ["http://192.0.2.1/"]}, "paths", "start the path with /"),
        ({"paths": []}, "paths", "at least one path"),
        ({"paths": ["/", "/b"]}, "paths", "only one URL"),
        ({"tool": "curl"}, "tool", "is not valid. Choose one of"),
        ({"name": ""}, "name", "must not be empty"),
        ({"rounds": 0}, "rounds", "from 1 to 100"),
        ({"timeout_s": 3}, "timeout_s", "time limit of at least 6 s"),
        ({"allowed_error_percent": 101}, "allowed_error_percent", "from 0 to 100"),
    ],
)
def test_scenario_model_rejects_invalid_values(operator: User, change: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        scenario_create(actor=operator, **(GOOD | change))
    assert words in " ".join(refused.value.message_dict[field])
    assert not Scenario.objects.exists()
    assert not AuditEntry.objects.filter(action="scenario.create").exists()


def test_unknown_scenario_field_is_rejected(operator: User) -> None:
    with pytest.raises(ApplicationError, match="Unknown field “command”"):
        scenario_create(actor=operator, **GOOD, command="id")


def test_scenario_changes_are_audited(operator: User, scenario: Scenario) -> None:
    scenario_update(actor=operator, scenario=scenario, rounds=5)
    entry = AuditEntry.objects.get(action="scenario.update")
    assert entry.before is not None and entry.after is not None
    assert (entry.before["rounds"], entry.after["rounds"]) == (3, 5)


def test_concurrent_scenario_edit_is_rejected(operator: User, scenario: Scenario) -> None:
    scenario_update(actor=operator, scenario=scenario, expected_version=1, rounds=5)
    with pytest.raises(Conflict):
        scenario_update(actor=operator, scenario=scenario, expected_version=1, rounds=9)
    scenario.refresh_from_db()
    assert scenario.rounds == 5


def test_viewers_cannot_create_benchmarks(viewer: User, scenario: Scenario, site: Site) -> None:
    with pytest.raises(PermissionDenied):
        scenario_create(actor=viewer, **GOOD)
    with pytest.raises(PermissionDenied):
        run_create(actor=viewer, scenario=scenario, sites=[site])
    assert not Run.objects.exists()


def test_scenario_of_another_team_is_rejected(outsider: User, operator: User, team: Team, site: Site) -> None:
    own = scenario_create(actor=operator, **GOOD, team=team)
    assert own not in selectors.scenarios_visible(outsider)
    with pytest.raises(PermissionDenied):
        scenario_update(actor=outsider, scenario=own, rounds=1)


def test_run_rejects_site_of_another_team(outsider: User, scenario: Scenario, site: Site) -> None:
    with pytest.raises(PermissionDenied):
        run_create(actor=outsider, scenario=scenario, sites=[site])
    assert not Run.objects.exists()


def test_run_freezes_scenario_and_sites(operator: User, scenario: Scenario, site: Site) -> None:
    run = run_create(actor=operator, scenario=scenario, sites=[site], title="  mine\r\nX: y ")
    target = run.targets.get()
    assert run.title == "mine X: y"
    assert run.parameters["arguments"] == scenario.arguments
    assert (target.base_url, target.engine) == ("http://paper.example:8080", "nginx")
    assert target.revision == site.state.revision
    scenario_update(actor=operator, scenario=scenario, rounds=9)
    run.refresh_from_db()
    assert run.parameters["rounds"] == 3


def test_run_requires_deployed_sites(
    operator: User, scenario: Scenario, team: Team, web_server: WebServer, site: Site
) -> None:
    draft = make_site("draft", team, web_server, 8082)
    with pytest.raises(ApplicationError, match="draft is not deployed"):
        run_create(actor=operator, scenario=scenario, sites=[draft])
    SiteState.objects.filter(site=site).update(status=SiteStatus.DISABLED)
    with pytest.raises(ApplicationError, match="paper is not deployed"):
        run_create(actor=operator, scenario=scenario, sites=[Site.objects.get(pk=site.pk)])
    assert not selectors.sites_measurable(operator).exists()


def test_run_requires_ready_host(operator: User, scenario: Scenario, host: Host, site: Site) -> None:
    Host.objects.filter(pk=host.pk).update(connection=Connection.SSH, status=HostStatus.KEY_CHANGED)
    with pytest.raises(ApplicationError, match="host key changed"):
        run_create(actor=operator, scenario=scenario, sites=[Site.objects.get(pk=site.pk)])


@pytest.mark.parametrize(("count", "words"), [(0, "at least one site"), (2, "once"), (9, "Select at most 8")])
def test_run_limits_number_of_sites(operator: User, scenario: Scenario, site: Site, count: int, words: str) -> None:
    with pytest.raises(ApplicationError, match=words):
        run_create(actor=operator, scenario=scenario, sites=[site] * count)


def test_run_rejects_protocol_without_listener(operator: User, site: Site) -> None:
    arguments = {**QUICK, "protocol": "h2", "tls": True}
    scenario = scenario_create(actor=operator, **(GOOD | {"tool": "h2load", "arguments": arguments}))
    with pytest.raises(ApplicationError, match=r"no address for HTTP/2 over TLS"):
        run_create(actor=operator, scenario=scenario, sites=[site])


def test_run_with_deleted_site_cannot_be_repeated(operator: User, scenario: Scenario, site: Site) -> None:
    run = finished_run(operator, scenario, [site])
    run.targets.update(site=None)
    with pytest.raises(ApplicationError, match="no longer exists"):
        run_repeat(actor=operator, run=run)


def test_running_run_cannot_be_deleted(operator: User, scenario: Scenario, site: Site) -> None:
    run = run_create(actor=operator, scenario=scenario, sites=[site])
    with pytest.raises(Conflict, match="Cancel the run first"):
        run_delete(actor=operator, run=run)


def test_run_of_two_teams_is_visible_to_members_of_both(
    operator: User, outsider: User, admin: User, scenario: Scenario, site: Site, web_server: WebServer
) -> None:
    other = make_site("theirs", outsider.teams.get(), web_server, 8090)
    deployed(other)
    run = run_create(actor=admin, scenario=scenario, sites=[site, other])
    assert run not in selectors.runs_visible(operator)
    assert run not in selectors.runs_visible(outsider)
    operator.teams.add(other.team)
    assert list(selectors.runs_visible(operator)) == [run]


# --- from a revision to a listener ---


def revised(site: Site, *listens: dict[str, Any], names: tuple[str, ...] = ()) -> Site:
    block = ServerBlock.objects.get(site=site)
    block.listens.all().delete()
    block.names.all().delete()
    for listen in listens:
        Listen.objects.create(block=block, **listen)
    for position, name in enumerate(names):
        ServerName.objects.create(block=block, name=name, position=position)
    deployed(site, number=2)
    return Site.objects.get(pk=site.pk)


@pytest.mark.parametrize(
    ("listen", "arguments", "expected"),
    [
        ({"port": 80}, {}, Endpoint("127.0.0.1", 80, "a.example")),
        ({"port": 80, "address": "::"}, {}, Endpoint("::1", 80, "a.example")),
        ({"port": 8080, "address": "10.0.0.5"}, {}, Endpoint("10.0.0.5", 8080, "a.example")),
        ({"port": 443, "tls": True}, {"tls": True}, Endpoint("127.0.0.1", 443, "a.example", tls=True)),
    ],
)
def test_run_uses_matching_listener(site: Site, listen: dict[str, Any], arguments: Any, expected: Endpoint) -> None:
    changed = revised(site, listen, names=("a.example",))
    assert targets.endpoint(targets.live_revision(changed), clean("ab", QUICK | arguments)) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("a.example", "b.example"), "a.example"),
        (("~^.*$", "b.example"), "b.example"),
        (("*.example",), "benchmark.example"),
        ((".a.example",), "a.example"),
        (("www.*",), "www.example"),
        (("~^.*$",), "127.0.0.1"),
        ((), "127.0.0.1"),
    ],
)
def test_run_uses_server_name_of_site(site: Site, names: tuple[str, ...], expected: str) -> None:
    revision = targets.live_revision(revised(site, {"port": 80}, names=names))
    assert targets.endpoint(revision, clean("ab", QUICK)).name == expected


def test_run_allows_exactly_listeners_of_site(site: Site) -> None:
    changed = revised(site, {"port": 80}, {"port": 443, "tls": True}, {"port": 80, "address": "::"})
    assert targets.allowed(targets.live_revision(changed)) == ["127.0.0.1:443", "127.0.0.1:80", "[::1]:80"]


def test_run_samples_expected_process_trees(site: Site, web_server: WebServer) -> None:
    assert targets.trees(targets.live_revision(site)) == {"server": ["/run/nginx.pid"]}
    PhpPool.objects.create(site=site, name="php", address="unix:/run/php.sock")
    WebServer.objects.filter(pk=web_server.pk).update(paths={"config_root": "/etc/nginx"})
    deployed(Site.objects.get(pk=site.pk), number=2)
    found = targets.trees(targets.live_revision(Site.objects.get(pk=site.pk)))
    assert found == {"server": ["nginx"], "application": ["php-fpm*", "lsphp*"]}
