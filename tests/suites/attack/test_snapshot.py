"""The count of written rows, by which the matrix and the hostile values decide whether to compare the tables."""

from __future__ import annotations

from django.db import transaction

from panel.accounts.models import Team
from tests.suites.attack.snapshot import changes, rows, writes


def test_every_kind_of_write_is_counted(db: None) -> None:
    before = writes()
    team = Team.objects.create(name="Shop", slug="shop")
    inserted = writes()
    Team.objects.update(name="Store")
    updated = writes()
    team.delete()
    assert before < inserted < updated < writes()


def test_reading_is_not_counted(db: None) -> None:
    Team.objects.create(name="Shop", slug="shop")
    before = writes()
    assert Team.objects.count() == 1
    assert writes() == before


def test_write_in_savepoint_is_counted_and_undone(db: None) -> None:
    before, stored = writes(), rows()
    with transaction.atomic():
        Team.objects.create(name="Shop", slug="shop")
        assert [label for label, _key in changes(stored, rows())] == ["accounts.Team"]
        transaction.set_rollback(True)
    assert writes() > before
    assert changes(stored, rows()) == []
