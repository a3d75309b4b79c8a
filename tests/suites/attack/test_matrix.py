"""Short form of the authorization matrix: restricted callers on every route with real bodies."""

from __future__ import annotations

import os

import pytest

from tests.suites.attack import matrix
from tests.suites.attack.figures import record
from tests.suites.security.conftest import session_of
from tests.suites.security.world import World, build

LONG = os.environ.get("ATTACK") == "long"


@pytest.fixture
def world(db: None) -> World:
    return build()


def test_every_route_declares_required_permission() -> None:
    assert matrix.undeclared() == []


@pytest.mark.one_database("permissions are decided in Python; test_every_url reads rows of other teams on both")
def test_callers_change_nothing_beyond_declared_permission(world: World) -> None:
    doors = [*matrix.api_doors(), *matrix.page_doors(session_of(world.admin))]
    everybody = matrix.callers(world)
    chosen = everybody if LONG else [everybody[1], everybody[2], everybody[5], everybody[9]]
    figures = matrix.Figures()
    matrix.run(world, doors, chosen, figures)
    if LONG:
        matrix.run(world, matrix.method_doors(), chosen, figures)
    record("authorization", doors=len(figures.doors), requests=figures.requests, findings=figures.findings)
    assert not figures.findings, "\n".join(figures.findings)
    assert len(figures.doors) > 250
    if LONG:
        assert len(figures.opened) > 40, "the bodies must mean something to those who are entitled"
