"""Who asked for it is told by mail, through a real mail server, what needs attention: once, and when it is over."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from django.conf import LazySettings
from django.utils import timezone

from panel.accounts.models import User
from panel.alerts import mail
from panel.alerts.models import AlertMail, SentAlert
from panel.alerts.services import alerts_send
from panel.deployments.models import SiteState
from panel.hosts.models import Host, HostStatus
from panel.remote import pool
from tests.api.caller import caller_of
from tests.deployments.sample_plans import carried_out, live, planned, shop
from tests.support.cast import Cast, cast, signed_in
from tests.support.mailbox import Mailbox, mail_server


@pytest.fixture
def people(db: None) -> Iterator[Cast]:
    yield cast()
    pool.close()  # plans ask the host


@pytest.fixture
def mailbox(settings: LazySettings) -> Iterator[Mailbox]:
    with mail_server(settings) as box:
        yield box


def wants(user: User) -> User:
    user.email, user.mail_alerts = f"{user.username}@example.com", True
    user.save()
    return user


def becomes(host: Host, status: str, detail: str = "") -> None:
    Host.objects.filter(pk=host.pk).update(status=status, status_detail=detail)


def subjects(mailbox: Mailbox) -> list[str]:
    return [str(message["Subject"]) for message in mailbox.messages]


def test_alert_is_mailed_once_and_again_when_resolved(people: Cast, mailbox: Mailbox) -> None:
    owner, host = wants(people.owner), people.host
    alerts_send()
    becomes(host, HostStatus.UNREACHABLE, "web-1 does not answer at 192.0.2.1:22.\nMore of it.")
    for _ in range(3):
        alerts_send()
    assert subjects(mailbox) == [f"Host {host.name}: Unreachable"]
    (message,) = mailbox.messages
    body = message.get_body(("plain",))
    assert body is not None
    text = body.get_content()
    assert message["To"] == owner.email
    assert "does not answer at 192.0.2.1:22." in text and "More of it" not in text
    assert f"https://panel.example.com/hosts/{host.name}/" in text
    becomes(host, HostStatus.READY)
    for _ in range(2):
        alerts_send()
    assert subjects(mailbox)[1:] == [f"Resolved: Host {host.name}: Unreachable"]
    becomes(host, HostStatus.UNREACHABLE)
    alerts_send()
    assert len(mailbox.messages) == 3, "the same alert, come again, is told again"


def test_pending_items_are_on_dashboard_but_not_mailed(people: Cast, mailbox: Mailbox) -> None:
    """A host that somebody is just adding, a plan to be confirmed, a host that is paused."""
    wants(people.owner)
    Host.objects.create(name="new-1", status=HostStatus.NEW, site_roots=["/srv/www"])
    Host.objects.create(name="disabled-1", status=HostStatus.UNREACHABLE, is_paused=True, site_roots=["/srv/www"])
    planned(people, shop(people))
    page = signed_in(people.owner).get("/").content.decode()
    assert "new-1" in page and "disabled-1" in page and "A plan is waiting" in page
    alerts_send()
    assert not mailbox.messages


def test_many_alerts_are_sent_in_one_mail(people: Cast, mailbox: Mailbox) -> None:
    wants(people.owner)
    for number in range(9):  # more than the dashboard shows of a kind
        Host.objects.create(name=f"db-{number}", status=HostStatus.UNREACHABLE, site_roots=["/srv/www"])
    alerts_send()
    assert subjects(mailbox) == ["9 alerts"]


def test_alerts_are_mailed_to_subscribed_team_members_only(people: Cast, mailbox: Mailbox) -> None:
    for user in (people.owner, people.outsider, people.admin):
        wants(user)
    people.viewer.email = "viewer@example.com"
    people.viewer.save()
    carried_out(planned(people, shop(people)), outcome="rolled_back", error="nginx: [emerg] no")
    alerts_send()
    told = {str(message["To"]): str(message["Subject"]) for message in mailbox.messages}
    assert told == {user.email: "Site shop: Rolled back" for user in (people.owner, people.admin)}


def test_alert_of_site_that_fails_again_stays_open(people: Cast, mailbox: Mailbox) -> None:
    wants(people.owner)
    site = shop(people)
    for attempt in ("first", "second"):
        carried_out(planned(people, site), outcome="rolled_back", error=f"the {attempt} error")
        alerts_send()
    assert subjects(mailbox) == ["Site shop: Rolled back"] * 2
    body = mailbox.messages[1].get_body(("plain",))
    assert body is not None and "the second error" in body.get_content() and "Over" not in body.get_content()


def test_mailed_server_message_omits_log_time_and_process(people: Cast, mailbox: Mailbox) -> None:
    owner, site = wants(people.owner), shop(people)
    alerts_send()
    carried_out(
        planned(people, site),
        outcome="rolled_back",
        error='2026/11/22 21:43:22 [emerg] 10618#10618: unknown directive "expire" in /etc/x.conf:7\nnginx: failed',
    )
    alerts_send()
    (message,) = mailbox.messages
    body = message.get_body(("plain",))
    assert body is not None
    assert body.get_content().splitlines()[1] == '  [emerg] unknown directive "expire" in /etc/x.conf:7'
    assert str(message["Message-ID"]).endswith("@example.com>"), "as the sender's address does"
    assert message["To"] == owner.email


def test_rejected_mail_is_retried_and_reported(people: Cast, mailbox: Mailbox) -> None:
    owner, now = wants(people.owner), timezone.now()
    becomes(people.host, HostStatus.UNREACHABLE)
    mailbox.answers = ["451 come back later", "554 never"]
    alerts_send(now)
    assert not mailbox.messages and not SentAlert.objects.exists()
    assert "451" in signed_in(owner).get("/account/").content.decode()
    alerts_send(now + dt.timedelta(minutes=1))
    assert len(mailbox.answers) == 1, "not yet"
    alerts_send(now + dt.timedelta(minutes=3))
    assert AlertMail.objects.get().attempts == 2 and "554" in AlertMail.objects.get().error
    alerts_send(now + dt.timedelta(minutes=30))
    assert len(mailbox.messages) == 1 and AlertMail.objects.get().error == ""
    assert "Last mail" in signed_in(owner).get("/account/").content.decode()


def test_racing_workers_send_one_mail(people: Cast, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    wants(people.owner)
    becomes(people.host, HostStatus.UNREACHABLE)
    send = mail.send

    def and_meanwhile(*args: object) -> None:
        monkeypatch.setattr(mail, "send", send)
        alerts_send()  # the other worker's round, while this one speaks to the mail server
        send(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(mail, "send", and_meanwhile)
    alerts_send()
    assert len(mailbox.messages) == 1


def test_new_subscription_starts_without_old_alerts(people: Cast, mailbox: Mailbox) -> None:
    owner = wants(people.owner)
    becomes(people.host, HostStatus.UNREACHABLE)
    alerts_send()
    User.objects.filter(pk=owner.pk).update(mail_alerts=False)
    alerts_send()
    assert not SentAlert.objects.exists()
    User.objects.filter(pk=owner.pk).update(mail_alerts=True)
    alerts_send()
    assert len(mailbox.messages) == 2


def test_stopped_web_server_with_live_sites_raises_alert(people: Cast, mailbox: Mailbox) -> None:
    """One that nobody's site stands on is not, nor one of a host that cannot be asked; a deployment that was verified
    shows that it runs."""
    becomes(people.host, HostStatus.READY)
    live(people, shop(people))
    people.nginx.refresh_from_db()
    assert people.nginx.is_running, "its sites answered"
    page = signed_in(people.owner)
    assert "live site uses this stopped web server" not in page.get("/").content.decode()
    people.nginx.is_running = False
    people.nginx.save()
    assert "1 live site uses this stopped web server" in page.get("/").content.decode()
    assert "live site uses this stopped web server" not in signed_in(people.outsider).get("/").content.decode()
    wants(people.owner)
    alerts_send()
    assert subjects(mailbox) == [f"Web server {people.nginx}: Stopped"]
    becomes(people.host, HostStatus.UNREACHABLE)
    assert "live site uses this stopped web server" not in page.get("/").content.decode()
    SiteState.objects.update(status="disabled")
    becomes(people.host, HostStatus.READY)
    assert "live site uses this stopped web server" not in page.get("/").content.decode()


def test_mail_subscription_requires_address_on_page_and_api(people: Cast) -> None:
    page = signed_in(people.owner)
    profile = {"email": "", "timezone_name": "UTC", "theme": "system", "mail_alerts": "on"}
    refused = page.post("/account/", profile)
    assert refused.status_code == 422 and "email" in refused.context["form"].errors
    assert page.post("/account/", profile | {"email": "olaf@example.com"}).status_code == 302
    people.owner.refresh_from_db()
    assert people.owner.mail_alerts
    api = page.patch("/api/v1/me/", {"mail_alerts": False}, content_type="application/json")
    assert api.status_code == 200 and api.json()["mail_alerts"] is False
    assert caller_of(people.owner).get("me/").json()["mail_alerts"] is False  # type: ignore[attr-defined]


def test_self_check_requires_mail_server_only_with_subscribers(people: Cast, settings: LazySettings) -> None:
    settings.EMAIL_HOST = ""
    page = signed_in(people.admin)
    assert "PADDOCK_SMTP_HOST" not in page.get("/settings/self-check/").content.decode()
    wants(people.viewer)
    assert "PADDOCK_SMTP_HOST" in page.get("/settings/self-check/").content.decode()
    alerts_send()
    becomes(people.host, HostStatus.UNREACHABLE)
    alerts_send()
    assert "No mail server is configured" in AlertMail.objects.get().error
