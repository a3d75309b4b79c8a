from __future__ import annotations

import re
import time
from unittest.mock import patch

import pyotp
import pytest
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.test import Client

from panel.accounts.models import User
from panel.accounts.services import second_factor
from tests.accounts.conftest import PASSWORD
from tests.support.cast import Cast


def sign_in(client: Client, username: str = "ada", password: str = PASSWORD, **extra: str) -> int:
    return client.post("/login/", {"username": username, "password": password}, **extra).status_code


def enrol(user: User) -> list[str]:
    second_factor.enrolment_begin(user=user)
    return second_factor.enrolment_confirm(user=user, code=pyotp.TOTP(user.totp_secret).now())


def later_code(user: User) -> str:
    """The code of the next step, which the window lets in: this step's was spent when enrolling."""
    return pyotp.TOTP(user.totp_secret).at(time.time() + 30)


def test_sign_in_with_correct_password_opens_dashboard(client: Client, people: Cast) -> None:
    assert client.get("/account/").status_code == 302
    assert sign_in(client) == 302
    assert client.get("/account/").status_code == 200


def test_form_posted_after_session_end_is_reported_as_lost(client: Client, people: Cast) -> None:
    page = "/sites/+new/"
    answer = client.post(page, {"name": "shop"}, follow=True, HTTP_REFERER=f"http://testserver{page}")
    assert "Your session ended before your changes were" in answer.content.decode()
    answer = client.get(page, follow=True, HTTP_REFERER="http://testserver/sites/")
    assert "Your session ended before your changes were" not in answer.content.decode()


def test_partial_pages_never_contain_sign_in_page(client: Client, people: Cast) -> None:
    """Polling fragments redirect the whole page to sign-in; a form that is being filled in stays as it is."""
    asked = {"HTTP_HX_REQUEST": "true", "HTTP_HX_CURRENT_URL": "http://testserver/hosts/web-1/"}
    answer = client.get("/hosts/web-1/live/", follow=True, HTTP_HX_TARGET="host-live", **asked)
    assert answer.content == b""
    assert answer["HX-Redirect"] == "/login/?next=%2Fhosts%2Fweb-1%2F&ended=1"
    answer = client.post("/sites/+new/", {"_field": "name"}, follow=True, HTTP_HX_TARGET="id_name-error", **asked)
    assert (answer.status_code, answer.content) == (204, b"")


def test_sign_in_name_ignores_case(client: Client, people: Cast) -> None:
    assert sign_in(client, "ADA") == 302


def test_sign_in_error_is_the_same_for_wrong_name_and_wrong_password(client: Client, people: Cast) -> None:
    wrong = client.post("/login/", {"username": "ada", "password": "nope"})
    unknown = client.post("/login/", {"username": "nobody", "password": "nope"})
    assert wrong.status_code == unknown.status_code == 422
    assert wrong.context["form"].non_field_errors() == unknown.context["form"].non_field_errors()


def test_sign_in_page_focuses_first_needed_field(client: Client, people: Cast) -> None:
    def begins_at(page: str) -> list[str]:
        controls = re.findall(r"<input[^>]* autofocus[^>]*>", page)
        return re.findall(r' name="(\w+)"', " ".join(controls))

    assert begins_at(client.get("/login/").content.decode()) == ["username"]
    wrong = client.post("/login/", {"username": "ada", "password": "wrong"}).content.decode()
    assert begins_at(wrong) == ["password"]
    enrol(people.admin)
    sign_in(client)
    assert begins_at(client.get("/login/code/").content.decode()) == ["code"]
    refused = client.post("/login/code/", {"code": "000000"}).content.decode()
    assert begins_at(refused) == ["code"] and "Nothing was saved" not in refused


def test_sign_in_hashes_once_for_unknown_names_too(client: Client, people: Cast) -> None:
    """Equal work, so that the response time does not reveal which names exist."""
    hasher = "django.contrib.auth.hashers.MD5PasswordHasher.encode"
    from django.contrib.auth.hashers import MD5PasswordHasher

    for name in ("ada", "nobody"):
        with patch(hasher, autospec=True, side_effect=MD5PasswordHasher.encode) as encode:
            sign_in(client, name, "nope")
        assert encode.call_count == 1, name


def test_closed_account_cannot_sign_in(client: Client, people: Cast) -> None:
    get_user_model().objects.filter(username="ada").update(is_active=False)
    assert sign_in(client) == 422


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example", "\r\nX: y"]
)
def test_sign_in_redirects_only_within_panel(client: Client, people: Cast, target: str) -> None:
    answer = client.post("/login/", {"username": "ada", "password": PASSWORD, "next": target})
    assert answer["Location"] == "/"


def test_sign_in_redirects_to_requested_page(client: Client, people: Cast) -> None:
    answer = client.post("/login/", {"username": "ada", "password": PASSWORD, "next": "/audit/?q=x"})
    assert answer["Location"] == "/audit/?q=x"


def test_session_key_changes_at_sign_in(client: Client, people: Cast) -> None:
    client.get("/login/")
    session = client.session
    session["marker"] = 1
    session.save()
    before = session.session_key
    sign_in(client)
    assert client.session.session_key != before
    assert not Session.objects.filter(session_key=before).exists()


def test_sign_out_requires_post(signed_in: Client) -> None:
    assert signed_in.get("/logout/").status_code == 405
    assert signed_in.get("/account/").status_code == 200
    signed_in.post("/logout/")
    assert signed_in.get("/account/").status_code == 302


def test_sign_in_form_requires_csrf_token(people: Cast) -> None:
    assert sign_in(Client(enforce_csrf_checks=True)) == 403


def test_sign_in_asks_for_two_factor_code(client: Client, people: Cast) -> None:
    enrol(people.admin)
    answer = client.post("/login/", {"username": "ada", "password": PASSWORD, "next": "/audit/"})
    assert answer["Location"] == "/login/code/"
    assert client.get("/account/").status_code == 302, "the password alone opens nothing"
    assert client.post("/login/code/", {"code": "000000"}).status_code == 422
    answer = client.post("/login/code/", {"code": later_code(people.admin)})
    assert answer["Location"] == "/audit/"
    assert client.get("/account/").status_code == 200


def test_code_page_requires_password_first(client: Client, people: Cast) -> None:
    enrol(people.admin)
    answer = client.post("/login/code/", {"code": later_code(people.admin)})
    assert answer["Location"] == "/login/"


def test_pending_sign_in_expires_after_five_minutes(client: Client, people: Cast) -> None:
    enrol(people.admin)
    sign_in(client)
    session = client.session
    session["second_factor_pending"] |= {"at": int(time.time()) - 301}
    session.save()
    assert client.post("/login/code/", {"code": later_code(people.admin)})["Location"] == "/login/"
    assert client.get("/account/").status_code == 302


def test_two_factor_code_works_once(client: Client, people: Cast) -> None:
    enrol(people.admin)
    code = later_code(people.admin)
    sign_in(client)
    assert client.post("/login/code/", {"code": code}).status_code == 302
    other = Client()
    sign_in(other)
    assert other.post("/login/code/", {"code": code}).status_code == 422


def test_recovery_code_works_once(client: Client, people: Cast) -> None:
    codes = enrol(people.admin)
    sign_in(client)
    assert client.post("/login/code/", {"code": codes[0].upper()}).status_code == 302
    other = Client()
    sign_in(other)
    assert other.post("/login/code/", {"code": codes[0]}).status_code == 422
    assert other.post("/login/code/", {"code": codes[1]}).status_code == 302
    assert len(User.objects.get(username="ada").recovery_codes) == len(codes) - 2
