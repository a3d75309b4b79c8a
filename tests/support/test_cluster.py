"""The tests that run in cluster mode too (tests/environment.py): those that use the database, directly or not."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.environment import LONGEST, PARTS, TOGETHER, is_for_cluster


@pytest.fixture
def rows(db: None) -> None:
    pass


def test_cluster_run_leaves_out_tests_without_database(request: pytest.FixtureRequest) -> None:
    assert not is_for_cluster(request.node)


def test_cluster_run_includes_indirect_database_fixtures(rows: None, request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)


def test_cluster_run_includes_transactional_tests(transactional_db: None, request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)


@pytest.mark.django_db
def test_cluster_run_includes_database_marks(request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)


@pytest.mark.one_database("the subject is the choice of tests")
def test_cluster_run_leaves_out_tests_marked_for_one_database(db: None, request: pytest.FixtureRequest) -> None:
    assert not is_for_cluster(request.node)


def test_database_test_on_real_servers_runs_in_cluster_mode_only(
    rows: None, server_root: Path, request: pytest.FixtureRequest
) -> None:
    parts = [name for name, is_chosen in PARTS.items() if is_chosen(request.node)]
    assert parts == ["cluster", "embedded-servers"]


def test_server_test_without_database_runs_in_embedded_mode_only(
    server_root: Path, request: pytest.FixtureRequest
) -> None:
    parts = [name for name, is_chosen in PARTS.items() if is_chosen(request.node)]
    assert parts == ["embedded"]


@pytest.mark.cluster
def test_cluster_run_includes_cluster_marks(request: pytest.FixtureRequest) -> None:
    assert is_for_cluster(request.node)


def test_garbage_collector_is_on_during_tests() -> None:
    assert gc.isenabled() and gc.get_freeze_count() > 0


def test_scheduling_names_existing_files() -> None:
    root = Path(__file__).resolve().parents[2]
    missing = [name for name in (*TOGETHER, *LONGEST) if not (root / name).is_file()]
    assert not missing, f"tests/environment.py names files that do not exist: {missing}"
