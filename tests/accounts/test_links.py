"""Invitations and forgotten passwords: one-time links, mailed through a real mail server."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from panel.accounts import tasks
from panel.accounts.guessing import RANDOM
from panel.accounts.models import AccountLink, Role, User
from panel.accounts.services import links, users
from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError
from tests.api.caller import caller_of
from tests.support.attempt_limits import statuses_until_limited
from tests.support.cast import signed_in, user
from tests.support.mailbox import Mailbox, mail_server

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "copper-tent-violin-march"
OTHER = "seven-lamps-under-water"


@pytest.fixture
def mailbox(settings: Settings) -> Iterator[Mailbox]:
    with mail_server(settings) as box:
        yield box


@pytest.fixture
def admin(db: None) -> User:
    return user("ada", Role.ADMIN)


@pytest.fixture
def vera(db: None) -> User:
    person = user("vera", Role.VIEWER)
    person.email = "vera@example.com"
    person.set_password(PASSWORD)
    person.save()
    return person


def path_of(text: str) -> str:
    found = re.search(r"/link/[\w-]+/", text)
    assert found, text
    return found[0]


def set_password(path: str, password: str = OTHER) -> Any:
    return Client(HTTP_HOST="localhost").post(path, {"password": password, "again": password})


def can_sign_in(name: str, password: str) -> bool:
    answer = Client(HTTP_HOST="localhost").post("/login/", {"username": name, "password": password})
    return answer.status_code == 302


def new_user(admin: User, **values: str) -> Any:
    given = {"username": "nils", "email": "nils@example.com", "role": "viewer", "is_active": "on", "password": ""}
    return signed_in(admin).post("/settings/users/new/", given | values)


def test_invited_user_sets_a_password_by_the_mailed_link(admin: User, mailbox: Mailbox) -> None:
    page = new_user(admin).content.decode()
    assert "A mail with the link was sent to nils@example.com." in page
    (message,) = mailbox.messages
    text = message.get_content()
    assert message["To"] == "nils@example.com" and "https://panel.example.com/link/" in text and "nils" in text
    path = path_of(text)
    assert path_of(page) == path
    assert not can_sign_in("nils", "")
    assert "Your user name is nils." in Client(HTTP_HOST="localhost").get(path).content.decode()
    assert set_password(path).headers["Location"] == "/login/"
    assert can_sign_in("nils", OTHER)
    assert set_password(path, PASSWORD).status_code == 404, "it works once"
    assert not can_sign_in("nils", PASSWORD)


def test_link_is_shown_to_the_administrator_when_nothing_can_be_mailed(admin: User, settings: Settings) -> None:
    settings.EMAIL_HOST = ""
    page = new_user(admin).content.decode()
    assert "The mail was not sent, because no mail server is configured" in page
    assert set_password(path_of(page)).status_code == 302
    assert can_sign_in("nils", OTHER)


def test_refused_mail_is_explained_and_the_link_is_shown(admin: User, mailbox: Mailbox) -> None:
    mailbox.answers = ["550 No such user here"]
    page = new_user(admin).content.decode()
    assert "The mail was not sent: 127.0.0.1 responded with 550 No such user here" in page
    assert path_of(page)


def test_forgotten_password_is_replaced_by_a_link_and_sessions_end(vera: User, mailbox: Mailbox) -> None:
    browser = signed_in(vera)
    assert "Reset your password" in Client(HTTP_HOST="localhost").get("/login/").content.decode()
    tasks.password_forgotten("VERA@example.com")
    (message,) = mailbox.messages
    path = path_of(message.get_content())
    assert set_password(path, "short").status_code == 422
    assert set_password(path).status_code == 302
    assert browser.get("/").status_code == 302, "old sessions have ended"
    assert can_sign_in("vera", OTHER) and not can_sign_in("vera", PASSWORD)


def test_second_factor_is_still_needed_after_a_reset(vera: User, mailbox: Mailbox) -> None:
    User.objects.filter(pk=vera.pk).update(totp_secret="JBSWY3DPEHPK3PXP", totp_confirmed_at=timezone.now())
    tasks.password_forgotten("vera")
    set_password(path_of(mailbox.messages[0].get_content()))
    browser = Client(HTTP_HOST="localhost")
    answer = browser.post("/login/", {"username": "vera", "password": OTHER})
    assert answer.headers["Location"] == "/login/code/"
    assert browser.get("/").status_code == 302


def test_page_responds_the_same_for_unknown_names(
    vera: User, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr("panel.accounts.views.links.task_send", lambda task, name: sent.append(name))
    answers = []
    for name in ("vera", "nobody"):
        page = Client(HTTP_HOST="localhost").post("/login/forgotten/", {"name": name})
        answers.append(re.sub(r'(nonce=|value=|CSRFToken": )"[^"]*"', "", page.content.decode()))
    assert answers[0] == answers[1] and sent == ["vera", "nobody"]
    assert mailbox.messages == []
    tasks.password_forgotten("nobody")
    assert mailbox.messages == []


def test_mails_to_one_account_and_requests_from_one_network_are_limited(
    vera: User, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("panel.accounts.views.links.task_send", lambda task, name: True)
    for _ in range(6):
        tasks.password_forgotten("vera")
    assert len(mailbox.messages) == links.MOST_RESETS
    client = Client(HTTP_HOST="localhost")
    statuses = statuses_until_limited(
        lambda number: client.post("/login/forgotten/", {"name": f"name-{number}"}).status_code, RANDOM
    )
    assert set(statuses[:-1]) == {200}


def test_link_is_not_promised_while_the_queue_is_away(
    vera: User, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("panel.accounts.views.links.task_send", lambda task, name: False)
    for name in ("vera", "nobody"):
        response = Client(HTTP_HOST="localhost").post("/login/forgotten/", {"name": name})
        assert response.status_code == 422
        assert "cannot send mail at the moment" in response.content.decode()


@pytest.mark.parametrize("name", ["", " ", "x" * 254, "véra", "\x00", "vera\r\nBcc: x@example.com", "%"])
def test_strange_names_send_nothing(vera: User, mailbox: Mailbox, name: str) -> None:
    assert Client(HTTP_HOST="localhost").post("/login/forgotten/", {"name": name}).status_code in (200, 400, 422)
    tasks.password_forgotten(name)
    assert mailbox.messages == []


def test_address_of_two_accounts_resets_neither(vera: User, mailbox: Mailbox) -> None:
    other = user("walt", Role.VIEWER)
    User.objects.filter(pk=other.pk).update(email="VERA@example.com")
    tasks.password_forgotten("vera@example.com")
    assert mailbox.messages == []


def test_inactive_and_invited_accounts_get_no_link_from_the_page(admin: User, vera: User, mailbox: Mailbox) -> None:
    User.objects.filter(pk=vera.pk).update(is_active=False)
    tasks.password_forgotten("vera")
    new_user(admin)
    mailbox.messages.clear()
    tasks.password_forgotten("nils")
    assert mailbox.messages == []


def test_link_ends_with_time_and_with_changes_of_its_account(admin: User, vera: User) -> None:
    def secret() -> str:
        return links.link_create(actor=admin, user=vera).path.split("/")[2]

    first, second = secret(), secret()
    assert links.link_found(first) is None, "a newer link ends the older"
    assert links.link_found(second) is not None
    AccountLink.objects.update(expires_at=timezone.now() - dt.timedelta(seconds=1))
    assert links.link_found(second) is None
    for change in (
        lambda: users.user_update(actor=admin, user=vera, email="other@example.com"),
        lambda: users.user_update(actor=admin, user=vera, password=OTHER),
        lambda: users.user_update(actor=admin, user=vera, is_active=False),
    ):
        made = secret()
        change()
        assert links.link_found(made) is None
    with pytest.raises(ApplicationError, match="not active"):
        links.link_create(actor=admin, user=User.objects.get(pk=vera.pk))


def test_guessed_links_are_limited(vera: User) -> None:
    client = Client(HTTP_HOST="localhost")
    statuses = statuses_until_limited(lambda number: client.get(f"/link/guess-{number}/").status_code, RANDOM)
    assert set(statuses[:-1]) == {404}


def test_only_the_digest_of_a_link_is_stored(admin: User, vera: User) -> None:
    made = links.link_create(actor=admin, user=vera)
    secret = made.path.split("/")[2]
    assert secret not in str(list(AccountLink.objects.values()))
    assert secret not in str(list(AuditEntry.objects.values()))


def test_api_creates_links_for_confirmed_administrators_only(admin: User, vera: User) -> None:
    assert caller_of(admin).post(f"users/{vera.pk}/link/").status_code == 403, "a token is no confirmed session"
    browser = signed_in(admin)
    answer = browser.post(f"/api/v1/users/{vera.pk}/link/", {}, content_type="application/json")
    assert answer.status_code == 200 and path_of(answer.json()["url"])
    assert signed_in(vera).post(f"/api/v1/users/{vera.pk}/link/", {}, content_type="application/json").status_code in (
        403,
        404,
    )
