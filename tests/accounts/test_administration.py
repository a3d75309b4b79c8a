"""Users and teams, managed by administrators only."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.test import Client
from django.utils import timezone

from panel.accounts import selectors
from panel.accounts.models import Team, User
from panel.accounts.services.users import user_update
from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError
from panel.hosts.models import Host, WebServer
from panel.websites.models import Site
from tests.accounts.conftest import PASSWORD
from tests.api.caller import caller_of
from tests.support.cast import Cast
from tests.support.ports import free_port

NEW = {"username": "nina", "email": "", "role": "operator", "is_active": "on", "password": "a fairly long secret"}


def test_created_user_can_sign_in(signed_in: Client, people: Cast) -> None:
    assert signed_in.post("/settings/users/new/", NEW | {"teams": [people.team.pk]}).status_code == 302
    nina = User.objects.get(username="nina")
    assert list(nina.teams.all()) == [people.team]
    assert Client().post("/login/", {"username": "nina", "password": "a fairly long secret"}).status_code == 302
    after = AuditEntry.objects.get(action="user.create").after
    assert after is not None and after["password"] == "(secret)" and nina.password not in str(after)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"username": "ADA"}, "__all__"),
        ({"username": "a b"}, "username"),
        ({"username": "nina\n"}, ""),
        ({"role": "root"}, "role"),
        ({"password": "short"}, "password"),
        ({"email": "x"}, "email"),
        ({"teams": ["99999"]}, "teams"),
    ],
)
def test_user_is_not_created_from_bad_values(
    signed_in: Client, people: Cast, changes: dict[str, object], field: str
) -> None:
    answer = signed_in.post("/settings/users/new/", NEW | changes)
    if not field:  # blanks around are taken away, not kept
        assert User.objects.get(username="nina")
        return
    assert answer.status_code == 422 and field in answer.context["form"].errors
    assert not User.objects.filter(username__in=["nina", "ADA", "a b"]).exists()


def test_closing_account_ends_its_sessions(signed_in: Client, people: Cast) -> None:
    other = Client()
    other.post("/login/", {"username": "olaf", "password": PASSWORD})
    values = {"username": "olaf", "email": "", "role": "operator", "password": ""}
    assert signed_in.post(f"/settings/users/{people.owner.pk}/", values).status_code == 302
    assert other.get("/account/").status_code == 302


def test_last_administrator_cannot_be_removed(people: Cast) -> None:
    for values in ({"role": "viewer"}, {"is_active": False}):
        with pytest.raises(ApplicationError):
            user_update(actor=people.admin, user=people.admin, **values)
    assert User.objects.get(username="ada").is_admin


def test_user_deletion_requires_typed_name(signed_in: Client, people: Cast) -> None:
    path = f"/settings/users/{people.viewer.pk}/delete/"
    assert signed_in.get(path).status_code == 200
    assert signed_in.post(path, {"confirm": "wrong"}).status_code == 422
    assert User.objects.filter(pk=people.viewer.pk).exists()
    assert signed_in.post(path, {"confirm": "vera"}).status_code == 302
    assert not User.objects.filter(pk=people.viewer.pk).exists()


def test_user_cannot_delete_own_account(signed_in: Client, people: Cast) -> None:
    answer = signed_in.post(f"/settings/users/{people.admin.pk}/delete/", {"confirm": "ada"})
    assert answer.status_code == 422
    assert User.objects.filter(username="ada").exists()


def test_team_with_sites_cannot_be_deleted(signed_in: Client, people: Cast) -> None:
    Site.objects.create(name="shop", team=people.team)
    answer = signed_in.post(f"/settings/teams/{people.team.pk}/delete/", {"confirm": people.team.name})
    assert answer.status_code == 422 and "shop" in answer.content.decode()
    assert signed_in.post(f"/settings/teams/{people.other_team.pk}/delete/", {"confirm": "Blog"}).status_code == 302
    assert list(Team.objects.all()) == [people.team]


def test_teams_are_created_and_renamed(signed_in: Client) -> None:
    assert signed_in.post("/settings/teams/new/", {"name": "Ops", "slug": "ops"}).status_code == 302
    team = Team.objects.get(slug="ops")
    assert signed_in.post(f"/settings/teams/{team.pk}/", {"name": "Ops 2", "slug": "shop"}).status_code == 422
    assert signed_in.post(f"/settings/teams/{team.pk}/", {"name": "Ops 2", "slug": "ops"}).status_code == 302
    assert "Ops 2" in signed_in.get("/settings/teams/").content.decode()


@pytest.mark.parametrize("name", ["olaf", "vera"])
@pytest.mark.parametrize("path", ["users/", "users/new/", "teams/", "teams/new/", "self-check/"])
def test_administration_pages_reject_other_roles(client: Client, people: Cast, name: str, path: str) -> None:
    client.force_login(User.objects.get(username=name))
    assert client.get(f"/settings/{path}").status_code == 403
    assert client.post(f"/settings/{path}", {}).status_code in {403, 405}


def test_self_check_names_missing_programs(signed_in: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panel.accounts.selectors.LOAD_TOOLS", {"no-such-tool": "its-package"})
    page = signed_in.get("/settings/self-check/").content.decode()
    assert "apt install its-package" in page
    assert "No worker runs" in page or "No worker responded within one second" in page  # the latter with Redis
    assert "Create your first site" in page
    assert signed_in.get("/settings/self-check/").status_code == 200


HOLD = """
import sys, time
from pathlib import Path
from panel.core.worker_presence import presence_hold
presence_hold(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_self_check_without_redis_finds_worker_until_it_is_killed(
    signed_in: Client, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings.HOME = tmp_path
    embedded = Celery("embedded", set_as_current=False, broker="folder://localhost/")
    monkeypatch.setattr("panel.accounts.selectors.celery", embedded)
    workers = [
        subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "held\n"
    for worker in workers:
        assert "A worker runs" in signed_in.get("/settings/self-check/").content.decode()
        worker.kill()
        worker.communicate()
    assert "No worker runs" in signed_in.get("/settings/self-check/").content.decode()


def test_self_check_links_to_adding_a_host_when_there_is_none(signed_in: Client) -> None:
    WebServer.objects.all().delete()
    Host.objects.all().delete()
    assert "Add your first host" in signed_in.get("/settings/self-check/").content.decode()


def test_self_check_reports_unreachable_queue(signed_in: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Celery("away", set_as_current=False, broker=f"redis://127.0.0.1:{free_port()}/0")
    monkeypatch.setattr("panel.accounts.selectors.celery", away)
    page = signed_in.get("/settings/self-check/").content.decode()
    assert "The queue is not reachable:" in page and "PADDOCK_REDIS_URL" in page


@pytest.mark.parametrize(("minutes", "state"), [(None, "warn"), (0, "ok"), (30, "bad")])
def test_self_check_reports_missing_scheduler(
    db: None, monkeypatch: pytest.MonkeyPatch, minutes: int | None, state: str
) -> None:
    monkeypatch.setattr("panel.accounts.selectors._workers", lambda: selectors.Check("Worker", "ok", "answers"))
    at = None if minutes is None else timezone.now() - timedelta(minutes=minutes)
    (found,) = [check for check in selectors.self_check(looked_at=at) if check.name == "Scheduler"]
    assert found.state == state and (state == "ok" or "celery -A panel beat" in found.advice)


def test_team_page_edits_members(signed_in: Client, people: Cast) -> None:
    url = f"/settings/teams/{people.team.pk}/"
    page = signed_in.get(url).content.decode()
    assert "olaf" in page and page.count("checked") == people.team.members.count()
    chosen = [people.outsider.pk, people.viewer.pk]
    answer = signed_in.post(url, {"name": people.team.name, "slug": people.team.slug, "members": chosen})
    assert answer.status_code == 302
    assert {user.pk for user in people.team.members.all()} == set(chosen)
    entry = AuditEntry.objects.get(action="team.update")
    assert entry.before and entry.after
    assert people.owner.username in entry.before["members"]
    assert sorted(entry.after["members"]) == sorted([people.outsider.username, people.viewer.username])


def test_api_team_update_sets_only_named_members(people: Cast) -> None:
    """A call without members leaves them unchanged; a token cannot set them."""
    api, url = caller_of(people.admin), f"teams/{people.team.pk}/"
    before = sorted(user.username for user in people.team.members.all())
    renamed = api.patch(url, {"name": "Renamed"})
    assert renamed.status_code == 200 and sorted(renamed.json()["members"]) == before
    refused = api.patch(url, {"members": [people.outsider.username]})
    assert refused.status_code == 403 and "Sign in with a browser" in refused.json()["detail"]
    assert sorted(user.username for user in people.team.members.all()) == before


def test_self_check_hides_advice_column_when_all_checks_pass(
    signed_in: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [selectors.Check("Disk", "ok", "plenty")]
    monkeypatch.setattr(selectors, "self_check", lambda **_: checks)
    assert "Solution" not in signed_in.get("/settings/self-check/").content.decode()
    checks.append(selectors.Check("Worker", "bad", "none", "Start a worker"))
    page = signed_in.get("/settings/self-check/").content.decode()
    assert "Solution" in page and "Start a worker" in page
