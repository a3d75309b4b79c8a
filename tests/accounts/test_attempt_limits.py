"""Limits for guesses of passwords, codes, tokens and setup links, over pages and API."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pyotp
import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from panel.accounts import guessing
from panel.accounts.guessing import ACCOUNT, DEVICE, NEAR, NETWORK, RANDOM, Kind, Limit
from panel.accounts.models import GuessBudget, User
from panel.accounts.services import second_factor
from panel.accounts.services.tokens import token_create
from tests.accounts.conftest import PASSWORD
from tests.support.attempt_limits import statuses_until_limited
from tests.support.cast import Cast

FREE = NEAR[Kind.PASSWORD].free
NEW = "an even longer secret"


def sign_in(
    username: str = "ada", password: str = "nope", *, address: str = "192.0.2.1", client: Client | None = None
) -> int:
    client = client or Client()
    return client.post("/login/", {"username": username, "password": password}, REMOTE_ADDR=address).status_code


def exhaust(username: str = "ada", *, address: str = "192.0.2.1") -> None:
    assert [sign_in(username, address=address) for _ in range(FREE)] == [422] * FREE
    assert sign_in(username, address=address) == 429


def addresses(count: int) -> list[str]:
    """Each in a network of its own."""
    return [f"10.{number}.0.1" for number in range(count)]


def enrol(user: User) -> None:
    second_factor.enrolment_begin(user=user)
    second_factor.enrolment_confirm(user=user, code=pyotp.TOTP(user.totp_secret).now())


def later_code(user: User) -> str:
    return pyotp.TOTP(user.totp_secret).at(time.time() + 30)


def pass_time(seconds: float) -> None:
    for row in GuessBudget.objects.all():
        row.counted_at -= timedelta(seconds=seconds)
        row.forgotten_at -= timedelta(seconds=seconds)
        row.save()


def test_correct_password_is_rejected_after_too_many_failures(people: Cast) -> None:
    exhaust()
    answer = Client().post("/login/", {"username": "ada", "password": PASSWORD}, REMOTE_ADDR="192.0.2.1")
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 30
    assert "Wait 30 seconds" in answer.content.decode()
    assert sign_in("olaf", PASSWORD) == 302, "other accounts are not affected"


@pytest.mark.parametrize("spelling", ["ADA", "Ada", " ada ", "ada\t", "aDa\u3000"])
def test_name_spelling_does_not_evade_attempt_limit(people: Cast, spelling: str) -> None:
    exhaust()
    assert sign_in(spelling, PASSWORD) == 429


def test_failures_count_together_across_name_spellings(people: Cast) -> None:
    for number in range(FREE):
        sign_in(("ada", "ADA", "Ada", "aDA", "adA", "AdA")[number % 6])
    assert sign_in(password=PASSWORD) == 429


@pytest.mark.parametrize("name", ["\uff41\uff44\uff41", "ad\u0430", "\u0130", "a\u0131da"])
def test_non_ascii_names_match_no_account(people: Cast, name: str) -> None:
    assert sign_in(name, PASSWORD) == 422


def test_unknown_names_are_limited_like_known_names(people: Cast) -> None:
    """A different limit would reveal which names exist."""
    for name in ("nobody", "NOBODY", "Nobody", "nobody ", "noBody", "nobodY"):
        sign_in(name)
    assert sign_in("nobody") == 429


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("192.0.2.1", "192.0.2.254"),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"),
        ("192.0.2.1", "::ffff:192.0.2.9"),
    ],
)
def test_addresses_of_one_network_share_attempt_limit(people: Cast, first: str, second: str) -> None:
    exhaust(address=first)
    assert sign_in(password=PASSWORD, address=second) == 429


def test_forged_forwarded_header_does_not_evade_attempt_limit(people: Cast) -> None:
    for number in range(FREE):
        Client().post("/login/", {"username": "ada", "password": "nope"}, HTTP_X_FORWARDED_FOR=f"198.51.{number}.1")
    answer = Client().post("/login/", {"username": "ada", "password": PASSWORD}, HTTP_X_FORWARDED_FOR="8.8.8.8")
    assert answer.status_code == 429


def test_account_is_limited_across_networks(people: Cast) -> None:
    answers = [sign_in(address=address) for address in addresses(ACCOUNT[Kind.PASSWORD].free + 1)]
    assert answers[-2:] == [422, 429]


def test_network_is_limited_across_accounts(people: Cast) -> None:
    answers = [sign_in(f"user{number}") for number in range(NETWORK.free + 1)]
    assert answers[-2:] == [422, 429]


def test_sign_in_is_limited_across_accounts_and_networks(people: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "EVERYWHERE", Limit(20, 60, 60, 600))
    answers = [sign_in(f"user{number}", address=f"10.{number}.0.1") for number in range(21)]
    assert answers[-2:] == [422, 429]


def test_known_browser_can_sign_in_during_attack(people: Cast) -> None:
    browser = Client()
    assert sign_in(password=PASSWORD, client=browser) == 302
    browser.post("/logout/")
    for address in addresses(ACCOUNT[Kind.PASSWORD].free + 1):
        sign_in(address=address)
    exhaust("olaf")
    [sign_in() for _ in range(FREE + 1)]  # from the owner's own network too
    GuessBudget.objects.update(counted_at=timezone.now())  # however slow this machine is
    assert sign_in(password=PASSWORD) == 429, "another browser waits"
    assert sign_in(password=PASSWORD, client=browser) == 302
    browser.post("/logout/")
    assert sign_in("olaf", PASSWORD, client=browser) == 429, "known for one account only"


def test_known_browser_is_limited(people: Cast) -> None:
    browser = Client()
    sign_in(password=PASSWORD, client=browser)
    browser.post("/logout/")
    for _ in range(DEVICE[Kind.PASSWORD].free):
        assert sign_in(client=browser) == 422
    assert sign_in(password=PASSWORD, client=browser) == 429


def test_forged_device_cookie_is_ignored(people: Cast) -> None:
    exhaust()
    browser = Client()
    browser.cookies[guessing.DEVICE_COOKIE] = '{"1":"a"}:1:forged'
    assert sign_in(password=PASSWORD, client=browser) == 429


def test_device_cookie_is_set_only_by_complete_sign_in(people: Cast) -> None:
    enrol(people.admin)
    browser = Client()
    sign_in(password=PASSWORD, client=browser)
    assert guessing.DEVICE_COOKIE not in browser.cookies
    browser.post("/login/code/", {"code": later_code(people.admin)})
    cookie = browser.cookies[guessing.DEVICE_COOKIE]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/login/", True, "Strict")


def test_attempt_delay_doubles_then_expires(people: Cast) -> None:
    exhaust()
    pass_time(31)
    assert sign_in() == 422, "one more guess after the delay"
    answer = Client().post("/login/", {"username": "ada", "password": "x"}, REMOTE_ADDR="192.0.2.1")
    assert answer.status_code == 429 and 30 < int(answer["Retry-After"]) <= 60
    pass_time(3600)
    assert sign_in(password=PASSWORD) == 302
    assert [Limit(2, 10, 60, 1).delay(count) for count in range(7)] == [0, 0, 10, 20, 40, 60, 60]


def test_sign_in_does_not_reset_network_count(people: Cast) -> None:
    """Signing in to one account must not allow new guesses at others."""
    for number in range(NETWORK.free):
        sign_in(f"user{number}")
        if number % 5 == 0:
            assert sign_in("olaf", PASSWORD, client=Client()) == 302
    assert sign_in("ada", PASSWORD) == 429


def test_password_reset_by_administrator_ends_wait(people: Cast) -> None:
    exhaust("olaf")
    admin = Client()
    sign_in("ada", PASSWORD, client=admin)
    user = User.objects.get(username="olaf")
    values = {"username": "olaf", "role": user.role, "is_active": "on", "password": NEW}
    assert admin.post(f"/settings/users/{user.pk}/", values).status_code == 302
    assert sign_in("olaf", NEW) == 302


def test_clear_command_removes_limits(people: Cast) -> None:
    exhaust()
    call_command("clear_sign_in_limits", "ADA")
    assert sign_in(password=PASSWORD) == 302
    exhaust("olaf")
    call_command("clear_sign_in_limits")
    assert not GuessBudget.objects.exists()


def test_codes_are_limited_per_account_across_sessions_and_networks(people: Cast) -> None:
    enrol(people.admin)
    answers = []
    for address in addresses(ACCOUNT[Kind.CODE].free + 1):
        browser = Client()
        assert sign_in(password=PASSWORD, client=browser, address=address) == 302
        answers.append(browser.post("/login/code/", {"code": "000000"}, REMOTE_ADDR=address).status_code)
    assert answers[-2:] == [422, 429]
    right = later_code(people.admin)
    assert browser.post("/login/code/", {"code": right}, REMOTE_ADDR="203.0.113.9").status_code == 429


def test_codes_are_limited_per_network(people: Cast) -> None:
    enrol(people.admin)
    browser = Client()
    sign_in(password=PASSWORD, client=browser)
    for code in ("000000", "11111-aaaaa", "222222", "33333-bbbbb", "444444", "555555"):
        assert browser.post("/login/code/", {"code": code}).status_code == 422
    assert browser.post("/login/code/", {"code": later_code(people.admin)}).status_code == 429


def test_new_sign_in_does_not_reset_code_limit(people: Cast) -> None:
    enrol(people.admin)
    for _ in range(NEAR[Kind.CODE].free):
        browser = Client()
        sign_in(password=PASSWORD, client=browser, address="127.0.0.1")
        assert browser.post("/login/code/", {"code": "000000"}).status_code == 422
    assert browser.post("/login/code/", {"code": later_code(people.admin)}).status_code == 429


def test_pending_sign_in_ends_when_password_changes(people: Cast) -> None:
    enrol(people.admin)
    browser = Client()
    sign_in(password=PASSWORD, client=browser)
    user = User.objects.get(username="ada")
    user.set_password(NEW)
    user.save()
    assert browser.post("/login/code/", {"code": later_code(people.admin)})["Location"] == "/login/"


def test_password_page_limits_guesses_of_current_password(signed_in: Client) -> None:
    form = {"password": NEW, "again": NEW}
    for _ in range(DEVICE[Kind.PASSWORD].free):
        assert signed_in.post("/account/password/", {"current": "nope", **form}).status_code == 422
    assert signed_in.post("/account/password/", {"current": PASSWORD, **form}).status_code == 429
    assert signed_in.post("/confirm/", {"password": PASSWORD}).status_code == 429, "counted with the confirmation"


def test_reauthentication_limits_passwords_and_codes(signed_in: Client, people: Cast) -> None:
    for _ in range(DEVICE[Kind.PASSWORD].free):
        assert signed_in.post("/confirm/", {"password": "nope"}).status_code == 422
    assert signed_in.post("/confirm/", {"password": PASSWORD}).status_code == 429
    pass_time(86400)
    enrol(people.admin)
    for _ in range(DEVICE[Kind.CODE].free):
        assert signed_in.post("/confirm/", {"password": PASSWORD, "code": "000000"}).status_code == 422
    answer = signed_in.post("/confirm/", {"password": PASSWORD, "code": later_code(people.admin)})
    assert answer.status_code == 429


def test_invalid_tokens_are_limited_but_valid_ones_are_not(people: Cast) -> None:
    def answer(token: str) -> int:
        return Client().get("/api/v1/me/", HTTP_AUTHORIZATION=f"Bearer {token}").status_code

    _token, plain = token_create(actor=people.admin, name="backup", scopes=["read"])
    answers = statuses_until_limited(lambda number: answer(f"pdk_{number}"), RANDOM)
    assert set(answers[:-1]) == {401}
    assert answer(plain) == 200
    refused = Client().get("/api/v1/me/", HTTP_AUTHORIZATION="Bearer x")
    assert refused["Content-Type"] == "application/problem+json" and int(refused["Retry-After"]) >= 1


def test_setup_link_guesses_are_limited(db: None) -> None:
    from panel.accounts.services.setup import setup_link_ensure

    right = setup_link_ensure(renew=True)
    answers = statuses_until_limited(lambda number: Client().get(f"/setup/{number}/").status_code, RANDOM)
    assert set(answers[:-1]) == {404}
    assert Client().get(right).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_parallel_guesses_stay_within_limit(settings: object) -> None:
    """Each thread has its own database connection, like web processes."""
    checked: list[int] = []
    broken: list[Exception] = []
    guesser = guessing.Guesser("192.0.2.0/24")

    def wrong() -> bool:
        checked.append(1)
        return False

    def attempt() -> None:
        try:
            guessing.guess(guesser, kind=Kind.PASSWORD, account="ada", check=wrong)
        except guessing.TooManyGuesses:
            pass
        except Exception as error:
            broken.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=attempt) for _ in range(4 * FREE)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not broken
    assert len(checked) == FREE


def test_limited_guesses_write_no_rows_and_old_rows_are_deleted(people: Cast) -> None:
    exhaust()
    before = list(GuessBudget.objects.order_by("pk").values())
    for _ in range(5):
        sign_in()
    assert list(GuessBudget.objects.order_by("pk").values()) == before
    pass_time(7 * 86400)
    old = set(GuessBudget.objects.values_list("pk", flat=True))
    sign_in("someone", address="203.0.113.1")
    assert not GuessBudget.objects.filter(pk__in=old, forgotten_at__lt=timezone.now()).exists()
