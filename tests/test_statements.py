"""A test may be left out of the second run when the others send all of its SQL, and never otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.environment import SERVERS_FIXTURE, is_for_any_database
from tests.support.statements import Recorder, said_by_others, shape


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM t WHERE id IN (%s)", "SELECT a FROM t WHERE id IN (%s, %s, %s)"),
        ("INSERT INTO t (a, b) VALUES (%s, %s)", "INSERT INTO t (a, b) VALUES (%s, %s), (%s, %s)"),
        ("SELECT a FROM t LIMIT 21", "SELECT a FROM t LIMIT 50"),
    ],
)
def test_how_many_values_makes_no_other_statement(one: str, other: str) -> None:
    assert shape(one) == shape(other)


def test_other_columns_and_conditions_do() -> None:
    said = ["SELECT a FROM t", "SELECT b FROM t", "SELECT a FROM t WHERE a = %s", "SELECT a FROM t WHERE a IN (%s)"]
    assert len({shape(sql) for sql in said}) == len(said)


def send(recorder: Recorder, *said: str) -> None:
    class Connection:
        execute_wrappers: list[object] = []

    recorder.listen(Connection)
    recorder.listen(Connection)
    assert len(Connection.execute_wrappers) == 1
    for sql in said:
        Connection.execute_wrappers[0](lambda *_: None, sql, (), False, {})  # type: ignore[operator]


def written(folder: Path, **tests: list[str]) -> Path:
    """By two processes: what is unmarked (`others`), and the marked ones."""
    for name in ("gw0", "gw1"):
        recorder = Recorder()
        for test, said in tests.items():
            recorder.begin(test, is_marked=test != "others")
            send(recorder, *(said if name == "gw0" else said[:1]))
        recorder.end()
        send(recorder, "SELECT nobody")
        recorder.write(folder / f"{name}.json")
    return folder


def test_only_what_others_send_too_is_left_out(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        others=["SELECT a", "UPDATE a"],
        same=["SELECT a", "SAVEPOINT s1"],
        more=["SELECT a", "SELECT b"],
        after_it=["SELECT b"],
        unheard=["SELECT nobody"],
    )
    tests = ["same", "more", "after_it", "unheard", "did_not_run"]
    assert said_by_others(tests, folder) == {"same", "after_it"}


def test_what_is_sent_while_the_tables_are_made_is_nobodys(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.begin("marked", is_marked=True)
    with recorder.deaf():
        send(recorder, "INSERT INTO django_migrations")
    send(recorder, "SELECT a")
    recorder.write(tmp_path / "gw0.json")
    assert [len(said) for said in json.loads((tmp_path / "gw0.json").read_text()).values()] == [1]


@pytest.mark.any_database
def test_the_mark_counts_only_for_a_test_that_starts_servers(request: pytest.FixtureRequest) -> None:
    item = request.node
    assert not is_for_any_database(item)
    item.fixturenames.append(SERVERS_FIXTURE)
    assert is_for_any_database(item)
