from __future__ import annotations

import datetime as dt
import hashlib
import re

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.test import Client
from django.utils import timezone

from panel.accounts.models import ApiToken, Scope
from panel.accounts.permissions import Action, may
from panel.accounts.services.tokens import address_allowed, token_authenticate, token_create, token_revoke
from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError
from tests.support.cast import Cast


def test_token_is_shown_once_and_stored_hashed(signed_in: Client) -> None:
    answer = signed_in.post("/account/tokens/new/", {"name": "ci", "scopes": ["read", "deploy"], "lifetime": "30"})
    plain = re.findall(r'<code id="token">(pdk_[0-9a-f]{8}_[\w-]{43})</code>', answer.content.decode())[0]
    assert "no-store" in answer["Cache-Control"]
    token = ApiToken.objects.get()
    assert token.digest == hashlib.sha256(plain.encode()).hexdigest()
    assert plain not in signed_in.get("/account/tokens/").content.decode()
    assert token.prefix in signed_in.get("/account/tokens/").content.decode()
    assert token_authenticate(plain=plain, address="192.0.2.1") == token
    entry = AuditEntry.objects.get(action="token.create")
    assert plain not in str(entry.after) and token.digest not in str(entry.after)


def test_token_page_revokes_only_own_tokens(signed_in: Client, people: Cast) -> None:
    theirs, plain = token_create(actor=people.owner, name="x", scopes=["read"])
    assert signed_in.post(f"/account/tokens/{theirs.pk}/revoke/").status_code == 404
    mine, _ = token_create(actor=people.admin, name="x", scopes=["read"])
    assert signed_in.post(f"/account/tokens/{mine.pk}/revoke/").status_code == 302
    assert not ApiToken.objects.get(pk=mine.pk).is_usable
    assert token_authenticate(plain=plain, address="192.0.2.1") == theirs


def test_token_last_use_is_recorded(people: Cast) -> None:
    token, plain = token_create(actor=people.owner, name="x", scopes=["read"])
    token_authenticate(plain=plain, address="192.0.2.9")
    token.refresh_from_db()
    assert token.last_used_at is not None and token.last_used_address == "192.0.2.9"


def test_expired_and_revoked_tokens_are_rejected(people: Cast) -> None:
    revoked, plain_revoked = token_create(actor=people.owner, name="a", scopes=["read"])
    token_revoke(actor=people.owner, token=revoked)
    expired, plain_expired = token_create(
        actor=people.owner, name="b", scopes=["read"], expires_at=timezone.now() + dt.timedelta(hours=1)
    )
    ApiToken.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - dt.timedelta(seconds=1))
    _closed, plain_closed = token_create(actor=people.viewer, name="c", scopes=["read"])
    people.viewer.is_active = False
    people.viewer.save()
    for plain in (plain_revoked, plain_expired, plain_closed, "", "pdk_00000000_guess"):
        assert token_authenticate(plain=plain, address="192.0.2.1") is None


@pytest.mark.parametrize(
    ("addresses", "address", "allowed"),
    [
        (None, "192.0.2.1", True),
        ([], "192.0.2.1", False),
        (["192.0.2.1"], "192.0.2.1", True),
        (["192.0.2.0/24"], "192.0.2.200", True),
        (["192.0.2.0/24"], "198.51.100.1", False),
        (["2001:db8::/32"], "2001:db8::7", True),
        (["2001:db8::/32"], "192.0.2.1", False),
        (["192.0.2.1"], "", False),
        (["rubbish"], "192.0.2.1", False),
        ("192.0.2.1", "192.0.2.1", False),
        ({}, "192.0.2.1", False),
    ],
)
def test_token_source_addresses_fail_closed(people: Cast, addresses: object, address: str, allowed: bool) -> None:
    assert address_allowed(ApiToken(user=people.owner, addresses=addresses), address) is allowed


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes"),
        ({"addresses": ["999.1.1.1"]}, "addresses"),
        ({"addresses": ["10.0.0.1/8"]}, "addresses"),
        ({"name": "a\r\nb"}, "name"),
    ],
)
def test_token_form_reports_errors_at_their_field(people: Cast, values: dict[str, object], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        token_create(actor=people.owner, **({"name": "x", "scopes": ["read"]} | values))  # type: ignore[arg-type]
    assert field in caught.value.message_dict
    assert not ApiToken.objects.exists()


def test_tokens_never_exceed_permissions_of_their_creator(people: Cast) -> None:
    with pytest.raises(PermissionDenied):
        token_create(actor=people.owner, name="x", scopes=["admin"])
    people.admin.scopes = frozenset({"admin"})
    with pytest.raises(ApplicationError):
        token_create(actor=people.admin, name="child", scopes=["read"])


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        ({Scope.READ}, {Action.VIEW}),
        ({Scope.SITES}, {Action.VIEW, Action.CHANGE}),
        ({Scope.DEPLOY}, {Action.VIEW, Action.DEPLOY}),
        ({Scope.BENCHMARK}, {Action.VIEW, Action.BENCHMARK}),
        ({Scope.ADMIN}, set(Action)),
        (set(), set()),
    ],
)
def test_token_scopes_limit_administrators_too(people: Cast, scopes: set[str], allowed: set[Action]) -> None:
    people.admin.scopes = frozenset(scopes)
    assert {action for action in Action if may(people.admin, action, people.team)} == allowed
    people.viewer.scopes = frozenset(scopes)
    viewer_may = {action for action in Action if may(people.viewer, action, people.team)}
    assert viewer_may == allowed & {Action.VIEW}
