"""Services of DNS accounts: create, change, delete, and test access to DNS servers and providers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import ProtectedError
from django.utils import timezone

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.certificates.dns import records
from panel.certificates.dns.providers import PROVIDERS, Setting
from panel.certificates.models import ChallengeRecord, DnsAccount
from panel.core.errors import ApplicationError
from panel.websites.services.base import remove, store

MOST_LENGTH = 1000


def dns_account_create(*, actor: User, team: Team, name: str, kind: str, settings: Mapping[str, Any]) -> DnsAccount:
    """Create a DNS account of a team.
    Raises PermissionDenied, and ValidationError at `kind` or at `settings/NAME` for each invalid setting.
    """
    account = DnsAccount(team=team, name=name)
    needs = _needs(kind)
    if needs is Action.ADMINISTER:
        require(actor, needs)
    account.settings = json.dumps(_checked(kind, settings, {}))
    store(actor=actor, team=team, instance=account, action="dns_account.create", values={"kind": kind})
    return account


def dns_account_update(
    *, actor: User, account: DnsAccount, settings: Mapping[str, Any], expected_version: int | None = None
) -> DnsAccount:
    """Change the settings of a DNS account. Missing settings and empty secrets keep their stored values."""
    if _needs(account.kind) is Action.ADMINISTER:
        require(actor, Action.ADMINISTER)
    changed = json.dumps(_checked(account.kind, settings, account.values))
    with transaction.atomic():
        store(
            actor=actor,
            team=account.team,
            instance=account,
            action="dns_account.update",
            values={},
            expected_version=expected_version,
        )
        DnsAccount.objects.filter(pk=account.pk).update(settings=changed, tested_at=None, problem="")
    account.refresh_from_db()
    return account


def _needs(kind: str) -> Action:
    provider = PROVIDERS.get(kind)
    if provider is None:
        raise ValidationError({"kind": [f"“{kind}” is not a DNS provider. Choose one of {', '.join(PROVIDERS)}."]})
    return Action.ADMINISTER if provider.needs_administrator else Action.CHANGE


def _checked(kind: str, given: Mapping[str, Any], before: Mapping[str, str]) -> dict[str, str]:
    known = {setting.name: setting for setting in PROVIDERS[kind].settings}
    faults: dict[str, list[str]] = {}
    for name in given.keys() - known.keys():
        faults[f"settings/{name}"] = [
            f"The DNS provider does not have this setting. Its settings are: {', '.join(known)}."
        ]
    found = {}
    for name, setting in known.items():
        value = given.get(name, before.get(name, setting.default))
        if value == "" and setting.is_secret:
            value = before.get(name, "")
        problem = _problem(setting, value)
        if problem:
            faults[f"settings/{name}"] = [problem]
        found[name] = value
    if faults:
        raise ValidationError(faults)
    return found


def _problem(setting: Setting, value: object) -> str:
    if not isinstance(value, str) or len(value) > MOST_LENGTH:
        return f"Enter a text of at most {MOST_LENGTH} characters."
    if any(not character.isprintable() for character in value):
        return "Remove line breaks and control characters."
    if setting.is_needed and not value:
        return "Enter a value for this setting."
    if setting.choices and value not in setting.choices:
        return f"Choose one of {', '.join(setting.choices)}."
    return ""


@transaction.atomic
def dns_account_delete(*, actor: User, account: DnsAccount, expected_version: int | None = None) -> None:
    """Delete a DNS account. Raises ApplicationError if a site uses the account, or if a record that Paddock wrote with
    the account is still in DNS.
    """
    try:
        remove(
            actor=actor,
            team=account.team,
            instance=account,
            action="dns_account.delete",
            expected_version=expected_version,
        )
    except ProtectedError as error:
        if records.leftover(account):
            words = (
                f"Paddock still has to remove DNS records that were created with {account}. Try again in a few minutes."
            )
        else:
            words = f"Sites use {account}. Turn off automatic HTTPS of these sites first."
        raise ApplicationError(words, code="in_use") from error


def dns_account_test(*, actor: User, account: DnsAccount, domain: str) -> DnsAccount:
    """Write a record below the domain, query it on every authoritative server, and remove it; store the result.

    `problem` of the returned account is "" if all of this succeeded.
    """
    require(actor, Action.CHANGE, account.team)
    value = "paddock-test-" + secrets.token_urlsafe(16)
    problem, rows = "", []
    try:
        rows = records.put(None, account, {domain.strip().rstrip(".").lower(): [value]})
        unseen = records.unseen(rows)
        problem = "; ".join(unseen)
    except ApplicationError as error:
        problem = error.message
    left = records.remove(ChallengeRecord.objects.filter(dns=account, value=value).select_related("dns"))
    problem = problem or "; ".join(left)
    with transaction.atomic():
        DnsAccount.objects.filter(pk=account.pk).update(
            tested_at=timezone.now(), tested_zone=domain[:253], problem=problem
        )
        audit_record(actor=actor, action="dns_account.test", target=account, after={"domain": domain[:253]})
    account.refresh_from_db()
    return account
