"""The audit log shows labels: no internal name of an action or object type reaches a reader."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from django.test import Client

from panel.audit.models import AuditEntry
from panel.audit.services import audit_record
from panel.audit.words import ACTIONS, KINDS, told
from panel.hosts.models import HostJobKind
from panel.websites.models import Site
from tests.suites.security import world
from tests.support.cast import Cast, cast

PANEL = Path(__file__).resolve().parents[2] / "panel"


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def recorded_actions() -> set[str]:
    """Every text of the form noun.verb that is handed on as an action, anywhere in the panel."""
    found = set()
    for path in PANEL.rglob("*.py"):
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            given = [word.value for word in call.keywords if word.arg == "action"]
            given += call.args if getattr(call.func, "id", "") in {"_save", "remove", "store"} else []
            texts = [node.value for value in given for node in ast.walk(value) if isinstance(node, ast.Constant)]
            found |= {text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z_]+\.[a-z_]+", text)}
    return found | {f"host.{kind}" for kind in HostJobKind.values}


def test_every_recorded_action_has_label() -> None:
    found = recorded_actions()
    assert len(found) > 50
    missing = sorted(found - set(ACTIONS))
    assert not missing, f"give these words in panel/audit/words.py: {missing}"


def test_audit_list_shows_labels_and_links_to_object(client: Client, people: Cast) -> None:
    site = Site.objects.create(name="shop", team=people.team)
    gone = Site.objects.create(name="gone", team=people.team)
    for row in (site, gone):
        audit_record(actor=people.admin, action="site.update", target=row)
    gone.delete()
    client.force_login(people.admin)
    page = client.get("/audit/").content.decode()
    assert page.count("Site changed") >= 2
    assert '<a href="/sites/shop/">shop</a>' in page
    assert "/sites/gone/" not in page
    assert ">site.update<" not in page and "websites.site" not in page


def test_audit_search_finds_labels(client: Client, people: Cast) -> None:
    audit_record(actor=people.admin, action="host.trust_key", target=people.host)
    audit_record(actor=people.admin, action="host.update", target=people.host)
    client.force_login(people.admin)
    page = client.get("/audit/?q=key+trusted").content.decode()
    assert "1 entry" in page


def test_account_links_are_shown_to_administrators_only(people: Cast) -> None:
    audit_record(actor=people.viewer, action="user.profile", target=people.viewer)
    entries = list(AuditEntry.objects.all())
    assert told(entries, is_admin=True)[0].url == f"/settings/users/{people.viewer.pk}/"
    assert told(entries, is_admin=False)[0].url == ""


def test_every_audited_object_type_has_label(db: None) -> None:
    world.build()
    assert set(AuditEntry.objects.values_list("object_type", flat=True)) <= set(KINDS)
