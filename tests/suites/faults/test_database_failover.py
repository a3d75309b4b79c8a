"""The primary PostgreSQL ends or vanishes and its standby is promoted: no deployment is lost or done twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.suites.faults.admins import Admins, assert_done_once
from tests.suites.renewals.scene import Scene, scene
from tests.support.database_pair import DatabasePair
from tests.support.waiting import eventually
from tests.support.whole_panel import WholePanel

ROWS = "tests.suites.renewals.rows"
SITES = 3
PROMOTED_AFTER_S = 5.0


@pytest.fixture
def world(server_root: Path, migrated_postgres: Path) -> Iterator[tuple[WholePanel, DatabasePair, Scene]]:
    pair = DatabasePair(server_root / "databases", migrated_postgres)
    try:
        pair.start()
        with scene(server_root / "hosts", hosts=1, sites=SITES) as found:
            panel = WholePanel(server_root / "panel", ROWS, found.given(), pair.url)
            panel.start()
            try:
                yield panel, pair, found
            finally:
                panel.stop()
    finally:
        pair.stop()


@pytest.mark.parametrize("fault", ["kill_primary", "cut_primary"])
def test_no_deployment_is_lost_or_done_twice_in_a_failover(
    world: tuple[WholePanel, DatabasePair, Scene], fault: str
) -> None:
    panel, pair, found = world
    admins = Admins(panel)
    with admins:
        assert eventually(lambda: len(admins.accepted) >= 6, timeout_s=60), panel.log.read_text()
        getattr(pair, fault)()
        time.sleep(PROMOTED_AFTER_S)
        pair.promote()
        before = len(admins.accepted)
        assert eventually(lambda: len(admins.accepted) >= before + 6), panel.log.read_text()
    assert_done_once(panel, admins, found.hosts[0])
