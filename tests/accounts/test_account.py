"""The user's own account: profile, password, two-factor authentication and reauthentication."""

from __future__ import annotations

import re
import time

import pyotp
from django.test import Client

from panel.accounts.models import User
from panel.audit.models import AuditEntry
from tests.accounts.conftest import PASSWORD
from tests.support.cast import Cast

NEW = "an even longer secret"


def expire_sudo(client: Client) -> None:
    session = client.session
    session["sudo_at"] = int(time.time()) - 901
    session.save()


def test_profile_time_zone_applies_to_shown_times(signed_in: Client) -> None:
    answer = signed_in.post("/account/", {"email": "a@b.example", "timezone_name": "Asia/Tokyo", "theme": "dark"})
    assert answer.status_code == 302
    user = User.objects.get(username="ada")
    assert (user.email, user.timezone, user.theme) == ("a@b.example", "Asia/Tokyo", "dark")
    page = signed_in.get("/account/").content.decode()
    assert 'data-theme="dark"' in page
    entry = AuditEntry.objects.get(action="user.profile")
    assert "JST" in signed_in.get(f"/audit/{entry.pk}/").content.decode()


def test_profile_rejects_unknown_time_zone(signed_in: Client) -> None:
    answer = signed_in.post("/account/", {"email": "", "timezone_name": "Mars/Base", "theme": "dark"})
    assert "timezone_name" in answer.context["form"].errors


def test_password_change_ends_other_sessions_and_keeps_current_one(signed_in: Client) -> None:
    other = Client()
    other.post("/login/", {"username": "ada", "password": PASSWORD})
    assert other.get("/account/").status_code == 200
    answer = signed_in.post("/account/password/", {"current": PASSWORD, "password": NEW, "again": NEW})
    assert answer.status_code == 302
    assert signed_in.get("/account/").status_code == 200
    assert other.get("/account/").status_code == 302
    assert Client().post("/login/", {"username": "ada", "password": NEW}).status_code == 302


def test_password_change_requires_current_password_and_strong_new_one(signed_in: Client) -> None:
    wrong = signed_in.post("/account/password/", {"current": "nope", "password": NEW, "again": NEW})
    assert "current" in wrong.context["form"].errors
    weak = signed_in.post(
        "/account/password/", {"current": PASSWORD, "password": "123456789012", "again": "123456789012"}
    )
    assert weak.status_code == 422
    assert User.objects.get(username="ada").check_password(PASSWORD)


def test_two_factor_enrollment_shows_qr_and_recovery_codes_once_and_stores_hashes(signed_in: Client) -> None:
    page = signed_in.get("/account/second-factor/").content.decode()
    assert "data:image/svg+xml" in page
    secret = User.objects.get(username="ada").totp_secret
    assert secret in page
    assert signed_in.post("/account/second-factor/", {"code": "000000"}).status_code == 422
    shown = signed_in.post("/account/second-factor/", {"code": pyotp.TOTP(secret).now()}).content.decode()
    codes = re.findall(r"<code>([a-z2-9]{5}-[a-z2-9]{5})</code>", shown)
    user = User.objects.get(username="ada")
    assert len(set(codes)) == 10 == len(user.recovery_codes)
    assert user.has_second_factor
    assert not set(codes) & set(user.recovery_codes)
    later = signed_in.get("/account/second-factor/").content.decode()
    assert secret not in later and codes[0] not in later


def test_two_factor_does_not_count_when_unconfirmed(signed_in: Client) -> None:
    signed_in.get("/account/second-factor/")
    assert Client().post("/login/", {"username": "ada", "password": PASSWORD})["Location"] == "/"


def test_two_factor_secret_is_encrypted_at_rest(signed_in: Client) -> None:
    from django.db import connection

    signed_in.get("/account/second-factor/")
    secret = User.objects.get(username="ada").totp_secret
    with connection.cursor() as cursor:
        cursor.execute("SELECT totp_secret FROM accounts_user WHERE username = 'ada'")
        stored = cursor.fetchone()[0]
    assert stored and secret not in stored


def test_sensitive_actions_require_reauthentication(signed_in: Client) -> None:
    expire_sudo(signed_in)
    for path in ("/account/tokens/new/", "/account/second-factor/", "/settings/users/new/"):
        answer = signed_in.get(path)
        assert answer.status_code == 302 and answer["Location"].startswith("/confirm/"), path
    assert signed_in.post("/confirm/", {"password": "nope", "next": "/account/tokens/new/"}).status_code == 422
    answer = signed_in.post("/confirm/", {"password": PASSWORD, "next": "/account/tokens/new/"})
    assert answer["Location"] == "/account/tokens/new/"
    assert signed_in.get("/account/tokens/new/").status_code == 200


def test_reauthentication_requires_two_factor_code(signed_in: Client) -> None:
    signed_in.get("/account/second-factor/")
    totp = pyotp.TOTP(User.objects.get(username="ada").totp_secret)
    signed_in.post("/account/second-factor/", {"code": totp.now()})
    expire_sudo(signed_in)
    assert signed_in.post("/confirm/", {"password": PASSWORD}).status_code == 422
    assert signed_in.post("/confirm/", {"password": PASSWORD, "code": totp.now()}).status_code == 422, "spent"
    assert signed_in.post("/confirm/", {"password": PASSWORD, "code": totp.at(time.time() + 30)}).status_code == 302


def test_two_factor_removal_requires_reauthentication(signed_in: Client, people: Cast) -> None:
    signed_in.get("/account/second-factor/")
    totp = pyotp.TOTP(User.objects.get(username="ada").totp_secret)
    signed_in.post("/account/second-factor/", {"code": totp.now()})
    expire_sudo(signed_in)
    signed_in.post("/account/second-factor/off/")
    assert User.objects.get(username="ada").has_second_factor
    signed_in.post("/confirm/", {"password": PASSWORD, "code": totp.at(time.time() + 30)})
    signed_in.post("/account/second-factor/off/")
    assert not User.objects.get(username="ada").has_second_factor
