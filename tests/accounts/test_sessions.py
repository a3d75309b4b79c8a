"""Sessions of an account: listed, told apart and ended."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import patch

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from panel.accounts.models import Role, User
from panel.audit.models import AuditEntry

PASSWORD = "quiet harbour lamp 9"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
PHONE = (
    "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Mobile Safari/537.36"
)


@pytest.fixture
def tess(db: None) -> User:
    return User.objects.create_user(username="tess", password=PASSWORD, role=Role.OPERATOR)


def browser(agent: str, username: str = "tess", address: str = "198.51.100.7") -> Client:
    client = Client(HTTP_HOST="localhost", HTTP_USER_AGENT=agent, REMOTE_ADDR=address)
    assert client.post("/login/", {"username": username, "password": PASSWORD}).status_code == 302
    return client


def page(client: Client) -> str:
    return client.get("/account/sessions/").content.decode()


def test_sessions_are_listed_and_ended_individually(tess: User) -> None:
    here, there = browser(FIREFOX), browser(PHONE, address="203.0.113.9")
    text = page(here)
    assert "Firefox on Linux" in text and "Chrome on Android" in text and "203.0.113.9" in text
    assert text.count(">this session<") == 1
    keys = Session.objects.values_list("session_key", flat=True)
    assert not any(key in text for key in keys), "a key opens its session"
    lines = here.get("/account/sessions/").context["sessions"]
    (other,) = (line for line in lines if not line.is_current)
    here.post(f"/account/sessions/{other.name}/end/")
    assert there.get("/account/").status_code == 302, "signed out"
    assert "Chrome on Android" not in page(here)
    assert (
        "This session has already ended."
        in here.post(f"/account/sessions/{other.name}/end/", follow=True).content.decode()
    )
    assert list(AuditEntry.objects.filter(action__startswith="session.").values_list("action", flat=True)) == [
        "session.end",
        "session.begin",
        "session.begin",
    ]


def test_all_other_sessions_are_ended_together(tess: User) -> None:
    User.objects.create_user(username="uma", password=PASSWORD, role=Role.VIEWER)
    here, there, foreign = browser(FIREFOX), browser(PHONE), browser(PHONE, "uma")
    assert "Ended 1 other session." in here.post("/account/sessions/end/", follow=True).content.decode()
    assert (here.get("/account/").status_code, there.get("/account/").status_code) == (200, 302)
    assert foreign.get("/account/").status_code == 200


def test_session_of_another_account_is_neither_shown_nor_ended(tess: User) -> None:
    User.objects.create_user(username="uma", password=PASSWORD, role=Role.VIEWER)
    here, foreign = browser(FIREFOX), browser(PHONE, "uma")
    (line,) = foreign.get("/account/sessions/").context["sessions"]
    assert "Chrome on Android" not in page(here)
    here.post(f"/account/sessions/{line.name}/end/")
    assert foreign.get("/account/").status_code == 200


def test_session_last_use_is_recorded_at_intervals(tess: User) -> None:
    client = browser(FIREFOX)
    (line,) = client.get("/account/sessions/").context["sessions"]
    later = timezone.now() + timedelta(minutes=20)
    with patch("panel.accounts.services.sessions.timezone.now", return_value=later):
        client.get("/sites/", REMOTE_ADDR="192.0.2.44")
    (now,) = client.get("/account/sessions/").context["sessions"]
    assert (now.began_at, now.seen_at, now.address) == (line.began_at, later, "192.0.2.44")
