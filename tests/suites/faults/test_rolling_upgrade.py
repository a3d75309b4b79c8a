"""An upgrade of one machine after the other: processes of the previous release and of this one over one database."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from tests.suites.faults.admins import Admins, assert_done_once
from tests.suites.faults.second_machine import SecondMachine
from tests.suites.renewals.scene import Scene, scene
from tests.support.previous_release import unpack_previous_release
from tests.support.waiting import eventually
from tests.support.whole_panel import ROOT, WholePanel

ROWS = "tests.suites.renewals.rows"
PAGES = ["/", "/sites/", "/sites/site-1-1/", "/hosts/", "/hosts/renewal-1/", "/deployments/", "/audit/", "/rollouts/"]
PAGES += ["/benchmarks/", "/reports/", "/placements/", "/settings/"]
# The previous release writes a row of every table, and takes them back.
EVERY_TABLE = """
from django.apps import apps
from django.db import IntegrityError, transaction
from django.db.models import Model
from tests.support import upgrading
models = [model for model in apps.get_models() if model.__module__.startswith("panel.")]
upgrading.OLD = {model._meta.app_label for model in models}
value = upgrading._value
upgrading._value = lambda field: b"1" if field.get_internal_type() == "BinaryField" else value(field)
def save(self, **options):  # without the checks of some models: the values are meaningless
    try:
        with transaction.atomic():
            Model.save(self, **options)
    except IntegrityError as error:
        if "already exists" not in str(error):  # otherwise every column had a value
            raise
        self.pk = type(self)._default_manager.first().pk
for model in models:
    model.save = save
with transaction.atomic():
    print(len(upgrading.fill(apps, {})), "of", len(models))
    transaction.set_rollback(True)
"""


@dataclass
class Upgrade:
    """`old` is a machine with the previous release; `second` one with this release, whose panel is `new`."""

    old: WholePanel
    second: SecondMachine
    found: Scene

    @property
    def new(self) -> WholePanel:
        panel = copy.copy(self.old)
        panel.port, panel.code = self.second.port, ROOT
        panel.env = self.second.process.env
        return panel

    def manage(self, panel: WholePanel, *arguments: str) -> str:
        return panel.run([str(panel.code / "manage.py"), *arguments])


@pytest.fixture
def upgrade(server_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upgrade]:
    monkeypatch.setenv("PADDOCK_SECRET_KEY", "s" * 60)
    monkeypatch.setenv("PADDOCK_ENCRYPTION_KEYS", Fernet.generate_key().decode())
    code = unpack_previous_release(server_root / "previous")
    with scene(server_root / "hosts", hosts=1, sites=3) as found:
        old = WholePanel(server_root / "panel", ROWS, found.given(), code=code)
        second = SecondMachine(old, server_root / "second")
        old.start()
        try:
            yield Upgrade(old, second, found)
        finally:
            second.process.stop(timeout_s=30)
            old.stop()


def test_machines_are_upgraded_one_after_the_other(upgrade: Upgrade) -> None:
    """In the order of docs/guide/production.md; `old` is the machine that is upgraded last."""
    old = upgrade.old
    with Admins(old) as admins:
        assert eventually(lambda: len(admins.accepted) >= 3), old.log.read_text()
        upgrade.manage(upgrade.new, "prepare")
        before = len(admins.accepted)
        assert eventually(lambda: len(admins.accepted) >= before + 6), old.log.read_text()
        upgrade.manage(old, "drain")
        upgrade.second.start()
        assert eventually(lambda: all(admins.states()[:before])), old.log.read_text()
    assert_previous_release_goes_on(upgrade)
    for asked in (old, upgrade.new):
        admins.panel = asked
        admins.deploy(next(iter(asked.made["blocks"])), 1000 + len(admins.accepted))
    assert_done_once(upgrade.new, admins, upgrade.found.hosts[0])
    assert "Internal Server Error" not in old.log.read_text(), old.log.read_text()
    # Workers of that version took messages while they were drained, also of tasks that they did not know.
    assert "Traceback" not in upgrade.second.process.said(), upgrade.second.process.said()


def assert_previous_release_goes_on(upgrade: Upgrade) -> None:
    """Its pages respond, and it can write to every table, on the database that this release migrated."""
    old = upgrade.old
    assert [page for page in PAGES if old.page(page) is None] == []
    assert old.call("POST", "sites/site-1-1/clone/", {"name": "copy"})[0] == 201
    written, _of, tables = upgrade.manage(old, "shell", "--no-imports", "-c", EVERY_TABLE).split()
    assert written == tables
