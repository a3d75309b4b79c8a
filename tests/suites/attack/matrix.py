"""Every route x method x caller with real bodies; a change by somebody who is not entitled is a finding."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from django.apps import apps
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.urls import Resolver404, resolve

from panel.accounts.models import Scope, User
from panel.accounts.services.tokens import token_create
from tests.suites.attack import bodies, snapshot
from tests.suites.attack.permissions import NEEDS, Caller, may_change
from tests.suites.security.addresses import addresses, fill
from tests.suites.security.conftest import session_of
from tests.suites.security.test_every_url import body_of
from tests.suites.security.world import World

Owners = dict[tuple[str, Any], tuple[Any, Any, bool]]
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
SLOW_S = 10.0
# They wait for workers or stream; reading has tests of its own.
_LONG = {"accounts:self_check", "api:self-check"}


@dataclass(frozen=True)
class Door:
    """One way to ask for a change: a route, a method and a body that means something to it."""

    route: str
    path: str
    method: str
    body: Any = None
    is_form: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Figures:
    doors: set[str] = field(default_factory=set)
    requests: int = 0
    opened: set[str] = field(default_factory=set)  # doors through which an entitled caller changed something
    findings: list[str] = field(default_factory=list)


def undeclared() -> list[str]:
    """Routes without a declared need, and needs of routes that are no more."""
    routes = {address.name for address in addresses()}
    return sorted(routes - NEEDS.keys())


def callers(world: World) -> list[Caller]:
    people = [
        Caller("nobody", None, False),
        Caller("an operator of another team", world.outsider, False),
        Caller("a viewer of the team", world.viewer, True),
        Caller("an operator of the team", world.owner, True),
        Caller("an administrator", world.admin, False),
    ]
    scopes = ("read", "sites", "deploy", "benchmark")
    tokens = [Caller(f"the operator's token of scope {scope}", world.owner, True, scope) for scope in scopes]
    tokens += [Caller(f"the administrator's token of scope {s}", world.admin, False, s) for s in (*scopes, "admin")]
    return people + tokens


def client_of(caller: Caller) -> Client:
    if caller.user is None:
        return Client(raise_request_exception=False)
    if not caller.scope:
        return session_of(caller.user)
    plain = token_create(actor=User.objects.get(pk=caller.user.pk), name="attack", scopes=[caller.scope])[1]
    return Client(headers={"Authorization": f"Bearer {plain}"}, raise_request_exception=False)


def api_doors() -> Iterator[Door]:
    """Every operation of the OpenAPI document that may change something, with a body of its schema."""
    for template, method, operation in bodies.operations():
        if method == "GET":
            continue
        path = fill(re.sub(r"\{(\w+)\}", r"<\1>", template).lstrip("/"))
        schema = bodies.body_schema(operation)
        yield Door(route_of(path), path, method, None if schema is None else bodies.valid(schema))


def page_doors(client: Client) -> Iterator[Door]:
    """Every form of every page that the client may see; beside them each page's own address, sent to without fields."""
    found: dict[tuple[str, str], Door] = {}
    for address in addresses():
        if address.name.startswith("api:"):
            continue
        found[address.path, ""] = Door(address.name, address.path, "POST", {}, is_form=True)
        if address.name in _LONG or "events" in address.path:
            continue
        answer = client.get(address.path)
        if not answer.get("Content-Type", "").startswith("text/html"):
            continue
        for form in bodies.forms_of(address.path, body_of(answer)):
            route = route_of(form.action)
            if form.method == "POST" and route:
                found[form.action, json.dumps(sorted(form.data))] = Door(
                    route, form.action, "POST", form.data, is_form=True
                )
    return iter(found.values())


def method_doors() -> Iterator[Door]:
    """Every address by every unsafe method with an empty object: doors that no document names."""
    for address in addresses():
        yield from (Door(address.name, address.path, method, {}) for method in UNSAFE)


def route_of(path: str) -> str:
    try:
        return resolve(path.partition("?")[0]).view_name
    except Resolver404:
        return ""


def run(world: World, doors: Iterable[Door], who: Iterable[Caller], figures: Figures) -> None:
    """Ask through each door as each caller; whatever a request changes is undone before the next."""
    pairs = [(caller, client_of(caller)) for caller in who]
    for _caller, client in pairs:
        client.get("/api/v1/me/")  # the use of a session or token is recorded once in a while, so here and not below
    before, owners = snapshot.rows(), _owners()
    for door in doors:
        figures.doors.add(str(door))
        for caller, client in pairs:
            figures.requests += 1
            with transaction.atomic():
                _ask(door, caller, client, before, owners, figures)
                transaction.set_rollback(True)


def _ask(door: Door, caller: Caller, client: Client, before: snapshot.Rows, owners: Owners, figures: Figures) -> None:
    written, begun = snapshot.writes(), time.monotonic()
    try:
        answer = sent(client, door)
    except Exception as error:
        figures.findings.append(f"{door} as {caller}: {type(error).__name__}: {error}")
        return
    taken = time.monotonic() - begun
    if answer.status_code >= 500 or taken > SLOW_S:
        figures.findings.append(f"{door} as {caller} -> {answer.status_code} in {taken:.1f} s")
    if snapshot.writes() == written:
        return
    changed = [row for row in snapshot.changes(before, snapshot.rows()) if not _is_own(row, door, caller, owners)]
    if not changed:
        return
    if may_change(caller, NEEDS.get(door.route, "nothing")):
        figures.opened.add(str(door))
    else:
        named = ", ".join(sorted({label for label, _key in changed}))
        figures.findings.append(f"{door} ({door.route}) as {caller} -> {answer.status_code} changed {named}")


def sent(client: Client, door: Door) -> Any:
    if door.is_form:
        return client.post(door.path, door.body)
    body = "" if door.body is None else json.dumps(door.body)
    return client.generic(door.method, door.path, body, content_type="application/json")


def _is_own(row: tuple[str, Any], door: Door, caller: Caller, owners: Owners) -> bool:
    """Rows about the caller's own account (a token of scope read changes none), and rows of no team or of a team in
    which the caller may do such a thing."""
    label, key = row
    if caller.user is None:
        return False
    user, team, has_team = owners.get(row) or owner_of(apps.get_model(label)._default_manager.filter(pk=key).first())
    if user == caller.user.pk and NEEDS.get(door.route) == "own" and caller.scope != Scope.READ:
        return True
    is_theirs = has_team and (team is None or team in caller.teams)
    return is_theirs and may_change(replace(caller, is_of_team=True), NEEDS.get(door.route, "nothing"))


def owner_of(row: Model | None) -> tuple[Any, Any, bool]:
    """Whose account and which team's a row is, and whether rows of its kind belong to teams."""
    user = row.pk if isinstance(row, User) else getattr(row, "user_id", None)
    return user, getattr(row, "team_id", None), hasattr(row, "team_id")


def _owners() -> Owners:
    """Of the rows that are there: a deleted one tells nothing any more."""
    named: list[type[Model]] = [m for m in apps.get_models() if {"user", "team"} & {f.name for f in m._meta.fields}]
    models = [User, *named]
    return {(model._meta.label, row.pk): owner_of(row) for model in models for row in model._default_manager.all()}
