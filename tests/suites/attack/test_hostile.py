"""Short form of the hostile values: one value for each field."""

from __future__ import annotations

import os

import pytest

from tests.suites.attack import hostile
from tests.suites.attack.figures import record
from tests.suites.attack.matrix import Figures
from tests.suites.security.conftest import session_of
from tests.suites.security.world import World, build

EACH = 0 if os.environ.get("ATTACK") == "long" else 1


@pytest.fixture
def world(db: None) -> World:
    return build()


def test_hostile_values_neither_crash_panel_nor_change_configuration(world: World) -> None:
    figures = Figures()
    hostile.run(session_of(world.admin), EACH, figures)
    record("hostile values", doors=len(figures.doors), requests=figures.requests, findings=figures.findings)
    assert not figures.findings, "\n".join(figures.findings[:60])
    assert figures.requests > 500
