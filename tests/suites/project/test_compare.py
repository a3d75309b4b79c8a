"""`make compare` continues without a failing peer and says so."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

BENCHES = Path(__file__).resolve().parents[3] / "native" / "benches"


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHES))
    return importlib.import_module("compare.rounds")


class Peer:
    """A server in name only; `runs`: what each of its runs measures, or fails with."""

    def __init__(self, name: str, *runs: float | Exception) -> None:
        self.name, self.runs, self.stops = name, list(runs), 0
        self.pid, self.place = 1, SimpleNamespace(plain=0)

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.stops += 1

    def measure(self) -> dict[str, float]:
        value = self.runs.pop(0)
        if isinstance(value, Exception):
            raise value
        return {"peak_rss": value}


def made(*peers: Peer) -> SimpleNamespace:
    return SimpleNamespace(servers=lambda _needs: list(peers))


def test_comparison_leaves_out_peer_without_responses_with_reason(rounds: ModuleType) -> None:
    mute = Peer("caddy", 9.0, RuntimeError("no answer for 45 s\nand more"), 9.0)
    ours, other = Peer("gallop", 1.0, 3.0, 2.0), Peer("nginx-new", 5.0, 4.0, 6.0)
    result, failures = rounds.run_each(made(ours, mute, other), "http3", Peer.measure, rounds=3)
    assert result == {"gallop": {"peak_rss": 2.0}, "nginx-new": {"peak_rss": 5.0}}
    assert failures == {"caddy": "no answer for 45 s"}
    assert (ours.stops, mute.stops) == (3, 2)
    report = importlib.import_module("compare.report")
    text = report.render(
        {"cases": {"million": result}, "failures": {"million": failures}, "machine": "m", "date": "d", "versions": {}},
        "",
    )
    assert "| nginx-new | 0.00 |" in text
    assert "- caddy failed and is left out: no answer for 45 s" in text


def test_comparison_continues_when_peer_fails_in_a_round(rounds: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def sample(peer: Peer, _case: object) -> tuple[float, float, float]:
        return peer.measure()["peak_rss"], 1.0, 1.0

    monkeypatch.setattr(rounds, "_sample", sample)
    monkeypatch.setattr(rounds, "_check", lambda servers, case: None)
    peers = (Peer("gallop", 9.0, 1.0, 2.0), Peer("nginx", 9.0, 3.0, 6.0), Peer("h2o", 9.0, 1.0, OSError("gone")))
    case = SimpleNamespace(name="http1", needs="http1")
    result, failures = rounds.run_case(made(*peers), case, 2)
    assert {name: values["ratio"] for name, values in result.items()} == {"gallop": 1.0, "nginx": 3.0}
    assert failures == {"h2o": "gone"}


def test_comparison_requires_gallop(rounds: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="broken"):
        rounds.run_each(made(Peer("gallop", RuntimeError("broken"))), "http3", Peer.measure, rounds=1)
