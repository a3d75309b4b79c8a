"""What a team may learn and change of another team: holes that the authorization matrix found."""

from __future__ import annotations

from panel.accounts.models import SavedView
from panel.benchmarks.models import Scenario
from panel.benchmarks.scenarios.ready_made import QUICK
from tests.api.caller import caller_of
from tests.suites.security import world as marks
from tests.suites.security.world import World


def test_quick_scenario_of_another_team_is_neither_shown_nor_copied(world: World) -> None:
    Scenario.objects.filter(pk=marks.KEY).update(name=QUICK[0].name)
    answer = caller_of(world.outsider).post("scenarios/quick/", {"quick": QUICK[0].slug})
    assert answer.status_code == 201
    assert (answer.json()["name"], answer.json()["id"] == marks.KEY) == (f"{QUICK[0].name} (2)", False)  # type: ignore[attr-defined]
    own = caller_of(world.owner).post("scenarios/quick/", {"quick": QUICK[0].slug})
    assert own.json()["id"] == marks.KEY  # type: ignore[attr-defined]


def test_existing_quick_scenario_requires_benchmark_permission(world: World) -> None:
    Scenario.objects.filter(pk=marks.KEY).update(name=QUICK[0].name)
    reader = caller_of(world.owner, ["read"])
    for caller in (reader, caller_of(world.viewer)):
        assert caller.post("scenarios/quick/", {"quick": QUICK[0].slug}).status_code == 403


def test_read_scope_token_cannot_change_saved_views(world: World) -> None:
    reader = caller_of(world.owner, ["read"])
    assert reader.delete(f"saved-views/{marks.KEY}/").status_code == 403
    assert reader.post("saved-views/", {"page": "sites", "name": "x", "query": "q=a"}).status_code == 403
    assert SavedView.objects.count() == 1
    assert caller_of(world.owner, ["sites"]).delete(f"saved-views/{marks.KEY}/").status_code == 204


def test_web_server_without_paths_is_rejected_at_its_field(world: World) -> None:
    body = {"host": marks.HOST, "engine": "nginx"}
    answer = caller_of(world.admin).post("web-servers/", body)
    assert answer.status_code == 422 and "/paths" in answer.content.decode()
    assert caller_of(world.outsider).post("web-servers/", body).status_code in (403, 422)
