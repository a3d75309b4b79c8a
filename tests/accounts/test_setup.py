"""The first account requires a secret that only an account of the panel's machine can read."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.test import Client

from panel.accounts.models import Role, SetupSecret, User
from panel.accounts.services.setup import setup_complete, setup_link_ensure, setup_link_path
from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError
from panel.core.management.commands.run import static_fingerprint
from tests.support.waiting import end_and_wait

# The link lies in one file of the data folder: no two of these at once.
pytestmark = pytest.mark.django_db
GOOD = {"username": "ada", "email": "", "password": "a long first secret", "again": "a long first secret"}


def secret_of(link: str) -> str:
    return link.strip("/").split("/")[1]


def test_setup_link_is_in_private_file_and_hashed_in_database() -> None:
    link = setup_link_ensure()
    assert setup_link_path().read_text().strip() == link
    assert stat.S_IMODE(setup_link_path().stat().st_mode) == 0o600
    assert secret_of(link) not in SetupSecret.objects.get().digest


def test_setup_link_survives_restart_and_is_replaced_on_renewal(client: Client) -> None:
    first = setup_link_ensure()
    assert setup_link_ensure() == first
    second = setup_link_ensure(renew=True)
    assert second != first
    assert client.get(first).status_code == 404
    assert client.get(second).status_code == 200


def test_setup_link_creates_administrator_once(client: Client) -> None:
    link = setup_link_ensure()
    answer = client.post(link, GOOD)
    assert answer.status_code == 302
    user = User.objects.get()
    assert (user.username, user.role) == ("ada", Role.ADMIN)
    assert client.get("/account/").status_code == 200
    assert not setup_link_path().exists()
    spent = client.get(link)
    assert (
        spent.status_code == 404
        and b"works only until the first account exists" in spent.content
        and b"make_setup_link" in spent.content
    )
    assert Client().post(link, GOOD | {"username": "eve"}).status_code == 404
    assert User.objects.count() == 1
    assert AuditEntry.objects.get(action="user.setup").actor == user


@pytest.mark.parametrize(("sent", "kept"), [("Europe/Vienna", "Europe/Vienna"), ("Mars/Olympus", "UTC"), ("", "UTC")])
def test_first_account_gets_time_zone_of_browser(client: Client, sent: str, kept: str) -> None:
    link = setup_link_ensure()
    assert b"data-own-zone" in client.get(link).content
    client.post(link, GOOD | {"timezone_name": sent})
    assert User.objects.get().timezone == kept


def test_setup_link_is_not_created_after_setup() -> None:
    setup_link_ensure()
    User.objects.create_user("ada", "a long first secret", role=Role.ADMIN)
    call_command("make_setup_link")
    assert not setup_link_path().exists()
    with pytest.raises(ApplicationError):
        setup_complete(secret="guess", username="eve", password="a long first secret")


def test_setup_secret_works_once_when_two_requests_race() -> None:
    secret = secret_of(setup_link_ensure())
    setup_complete(secret=secret, username="ada", password="a long first secret")
    User.objects.all().delete()  # as if the other call had not seen the first account yet
    with pytest.raises(ApplicationError):
        setup_complete(secret=secret, username="eve", password="a long first secret")


@pytest.mark.parametrize("guess", ["", "x", "..", "setup", "%00", "a" * 500])
def test_setup_link_guesses_are_rejected(client: Client, guess: str) -> None:
    setup_link_ensure()
    assert client.get(f"/setup/{guess}/").status_code == 404
    assert client.post(f"/setup/{guess}/", GOOD).status_code == 404
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"password": "short", "again": "short"}, "password"),
        ({"again": "something else"}, "again"),
        ({"username": "ada\r\nX: y"}, "username"),
        ({"username": ""}, "username"),
        ({"email": "nobody"}, "email"),
    ],
)
def test_setup_errors_appear_at_their_field_and_keep_secret_valid(
    client: Client, changes: dict[str, str], field: str
) -> None:
    link = setup_link_ensure()
    answer = client.post(link, GOOD | changes)
    assert answer.status_code == 422
    assert field in answer.context["form"].errors
    assert not User.objects.exists()
    assert client.post(link, GOOD).status_code == 302


def test_setup_secret_stays_valid_after_weak_password() -> None:
    secret = secret_of(setup_link_ensure())
    with pytest.raises(ValidationError):
        setup_complete(secret=secret, username="ada", password="password1234")
    assert setup_complete(secret=secret, username="ada", password="a long first secret").is_admin


def test_prepare_creates_setup_link_without_printing_it(
    capsys: pytest.CaptureFixture[str], settings: Any, tmp_path: Path
) -> None:
    settings.HOME, settings.STATIC_ROOT, settings.LOCAL_HOST_ROOT = tmp_path, tmp_path / "static", tmp_path / "host"
    settings.STATIC_ROOT.mkdir()
    (settings.STATIC_ROOT / ".fingerprint").write_text(static_fingerprint())  # collecting takes long and is not asked
    try:
        call_command("prepare")
        assert setup_link_path().read_text().strip() not in capsys.readouterr().out
        call_command("make_setup_link")
        assert setup_link_path().read_text().strip() in capsys.readouterr().out
    finally:
        for pid_file in (tmp_path / "host").rglob("*.pid"):  # preparing starts the panel's own gallop
            end_and_wait(int(pid_file.read_text()))


def test_setup_reports_short_and_mismatched_password_together(client: Client) -> None:
    answer = client.post(setup_link_ensure(), GOOD | {"password": "short", "again": "other"})
    assert answer.status_code == 422
    assert set(answer.context["form"].errors) == {"password", "again"}
