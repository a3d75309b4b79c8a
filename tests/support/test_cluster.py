"""Which tests run in cluster mode as well (tests/environment.py): those that the database has a part in, however they
came by it."""

from __future__ import annotations

import pytest

from tests.environment import is_for_cluster


@pytest.fixture
def rows(db: None) -> None:
    pass


def test_without_database_is_left_out_of_cluster_run(request: pytest.FixtureRequest) -> None:
    assert not is_for_cluster(request.node)


def test_with_indirect_database_fixture_is_in_cluster_run(rows: None, request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)


def test_transactional_test_is_in_cluster_run(transactional_db: None, request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)


@pytest.mark.django_db
def test_marked_test_is_in_cluster_run(request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)


@pytest.mark.cluster
def test_with_cluster_mark_is_in_cluster_run(request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)
