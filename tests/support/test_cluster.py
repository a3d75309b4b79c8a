"""Which tests run in cluster mode as well (tests/environment.py): those that the database has a part in, however they
came by it."""

from __future__ import annotations

import pytest

from tests.environment import is_for_cluster


@pytest.fixture
def rows(db: None) -> None:
    pass


def test_without_a_database_it_is_left_out(request: pytest.FixtureRequest) -> None:
    assert not is_for_cluster(request.node)


def test_a_database_behind_another_fixture_counts(rows: None, request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)


def test_one_with_transactions_counts(transactional_db: None, request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)


@pytest.mark.django_db
def test_one_that_a_mark_asks_for_counts(request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)


@pytest.mark.cluster
def test_settings_of_cluster_mode_count(request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)
