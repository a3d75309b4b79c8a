"""The mail server on its page: saved, tried, used for every mail, and careful with its password."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from pytest_django import Settings

from panel.accounts.models import Role, User
from panel.accounts.services.mail_server import mail_server_set
from panel.core import mail
from panel.core.models import MailServer
from tests.support.cast import signed_in, user
from tests.support.mailbox import Mailbox, mail_server
from tests.support.ports import free_port

pytestmark = pytest.mark.django_db


@pytest.fixture
def mailbox(settings: Settings) -> Iterator[Mailbox]:
    with mail_server(settings) as box:
        yield box


@pytest.fixture
def admin(db: None) -> User:
    person = user("ada", Role.ADMIN)
    User.objects.filter(pk=person.pk).update(email="ada@example.com")
    return User.objects.get(pk=person.pk)


def values(port: int, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"host": "127.0.0.1", "port": port, "security": "none", "username": "", "password": ""}
    return base | {"sender": "Panel <panel@stored.example>"} | changes


def test_saved_server_takes_the_place_of_the_environments(admin: User, mailbox: Mailbox, settings: Settings) -> None:
    port, settings.EMAIL_HOST = settings.EMAIL_PORT, "unused.invalid"
    browser = signed_in(admin)
    page = browser.get("/settings/mail/").content.decode()
    assert "The environment of the panel sets the mail server" in page and "unused.invalid" in page
    assert browser.post("/settings/mail/", values(port)).status_code == 302
    page = browser.post("/settings/mail/test/", follow=True).content.decode()
    assert "A test mail was sent to ada@example.com. Accepted by 127.0.0.1." in page
    (message,) = mailbox.messages
    assert message["From"] == "Panel <panel@stored.example>" and "@stored.example>" in message["Message-ID"]
    browser.post("/settings/mail/delete/")
    found = mail.server()
    assert found is not None and found.host == "unused.invalid"


def test_failed_test_is_explained(admin: User, mailbox: Mailbox, settings: Settings) -> None:
    settings.EMAIL_HOST = ""
    browser = signed_in(admin)
    assert "No mail server is configured" in browser.post("/settings/mail/test/", follow=True).content.decode()
    port = free_port()
    browser.post("/settings/mail/", values(port))
    assert f"127.0.0.1:{port} is not usable" in browser.post("/settings/mail/test/", follow=True).content.decode()
    User.objects.filter(pk=admin.pk).update(email="")
    assert "has no mail address" in browser.post("/settings/mail/test/", follow=True).content.decode()


def test_password_is_encrypted_never_shown_and_not_sent_elsewhere(admin: User) -> None:
    mail_server_set(actor=admin, **values(25, security="starttls", username="u", password="s3cret-word"))
    assert "s3cret-word" not in str(list(MailServer.objects.values()))
    browser = signed_in(admin)
    assert "s3cret-word" not in browser.get("/settings/mail/").content.decode()
    assert "s3cret-word" not in browser.get("/api/v1/mail-server/").content.decode()
    assert "s3cret-word" not in repr(mail.server())
    browser.post("/settings/mail/", values(25, security="starttls", username="u", sender="x@example.com"))
    assert MailServer.objects.get().password == "s3cret-word", "the place is the same"
    browser.post("/settings/mail/", values(25, security="starttls", username="u", host="evil.example"))
    assert MailServer.objects.get().password == ""


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"host": "smtp example"}, "host"),
        ({"host": "smtp.example\nX"}, "host"),
        ({"port": 0}, "port"),
        ({"sender": "nobody"}, "sender"),
        ({"sender": "a@example.com\r\nBcc: b@example.com"}, "sender"),
        ({"password": "x"}, "security"),
    ],
)
def test_wrong_values_are_reported_at_their_field(admin: User, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        mail_server_set(actor=admin, **(values(25) | changes))
    assert field in refused.value.error_dict


def test_only_administrators_see_and_change_it() -> None:
    viewer = signed_in(user("vera", Role.VIEWER))
    for address in ("/settings/mail/", "/api/v1/mail-server/"):
        assert viewer.get(address).status_code == 403
    for address in ("/settings/mail/", "/settings/mail/test/", "/settings/mail/delete/"):
        assert viewer.post(address).status_code == 403
    assert not MailServer.objects.exists()


def test_api_sets_and_deletes_it(admin: User, settings: Settings) -> None:
    settings.EMAIL_HOST = ""
    browser: Any = signed_in(admin)
    assert browser.get("/api/v1/mail-server/").status_code == 404
    answer = browser.put("/api/v1/mail-server/", values(25), content_type="application/json")
    assert (answer.status_code, answer.json()["host"]) == (200, "127.0.0.1")
    assert browser.delete("/api/v1/mail-server/").status_code == 204
    assert mail.server() is None
