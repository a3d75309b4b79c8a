"""A panel on two machines over one PostgreSQL and one Redis goes on when one of the machines is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from tests.suites.faults.admins import Admins, assert_done_once
from tests.suites.faults.second_machine import SecondMachine
from tests.suites.renewals.scene import Scene, scene
from tests.support.waiting import eventually
from tests.support.whole_panel import WholePanel

ROWS = "tests.suites.renewals.rows"


@pytest.fixture
def world(
    server_root: Path, monkeypatch: pytest.MonkeyPatch, migrated_postgres: Path
) -> Iterator[tuple[WholePanel, SecondMachine, Scene]]:
    monkeypatch.setenv("PADDOCK_SECRET_KEY", "s" * 60)
    monkeypatch.setenv("PADDOCK_ENCRYPTION_KEYS", Fernet.generate_key().decode())
    with scene(server_root / "hosts", hosts=1, sites=3) as found:
        first = WholePanel(server_root / "panel", ROWS, found.given(), copy_of=migrated_postgres)
        second = SecondMachine(first, server_root / "second")
        first.start()
        second.start()
        try:
            yield first, second, found
        finally:
            second.process.stop(timeout_s=30)
            first.stop()


def test_sessions_and_tokens_of_one_machine_are_valid_on_the_other(
    world: tuple[WholePanel, SecondMachine, Scene],
) -> None:
    first, second, _found = world
    own, first.port = first.port, second.port
    assert first.call("GET", "me/")[0] == 200
    page = first.page("/sites/")
    assert page is not None and "site-1-1" in page
    first.port = own


def test_no_deployment_is_lost_or_done_twice_when_a_machine_is_lost(
    world: tuple[WholePanel, SecondMachine, Scene],
) -> None:
    first, second, found = world
    admins = Admins(first)
    with admins:
        assert eventually(lambda: len(admins.accepted) >= 12, timeout_s=60), first.log.read_text()
        second.lose()
        before = len(admins.accepted)
        assert eventually(lambda: len(admins.accepted) >= before + 12, timeout_s=90), first.log.read_text()
    assert_done_once(first, admins, found.hosts[0])
