"""Samples count each process for the right tree."""

from __future__ import annotations

import pytest

from agents.host import sample
from agents.host.sample import Process, root_pids, tree

MIB = 1 << 20
# openlitespeed (10) has a worker (11) and, through its starter of programs (12), an lsphp (20) with a child (21).
# Another lsphp (30) is none of its business.
TABLE = {
    pid: Process(pid, parent, name, 1.0, MIB)
    for pid, parent, name in (
        (10, 1, "openlitespeed"),
        (11, 10, "openlitespeed"),
        (12, 10, "openlitespeed"),
        (20, 12, "lsphp"),
        (21, 20, "lsphp"),
        (30, 1, "lsphp"),
    )
}


def pids(processes: list[Process]) -> set[int]:
    return {process.pid for process in processes}


def test_process_tree_can_start_at_named_children() -> None:
    assert root_pids(["pid:10/lsphp*"], TABLE) == {20, 21}
    assert root_pids(["lsphp*"], TABLE) == {20, 21, 30}
    assert root_pids(["pid:10"], TABLE) == {10}
    assert root_pids(["pid:99", "pid:99/lsphp*"], TABLE) == set()


def test_web_server_samples_exclude_its_php(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "processes", lambda: TABLE)
    sampler = sample.Sampler({"server": ["pid:10"], "application": ["pid:10/lsphp*"]}, hz=50.0)
    sampler.tick()
    assert pids(tree({10}, TABLE)) == {10, 11, 12, 20, 21}, "alone it is charged for all"
    assert {name: rows[0][2] // MIB for name, rows in sampled(sampler).items()} == {"server": 3, "application": 2}


def sampled(sampler: sample.Sampler) -> dict[str, list[list[float]]]:
    """After a second look, late enough for a share of CPU."""
    sampler.started -= 1.0
    sampler.tick()
    return sampler.samples


def test_two_names_of_one_process_tree_are_merged() -> None:
    assert pids(tree({10}, TABLE, frozenset({10}))) == {10, 11, 12, 20, 21}
