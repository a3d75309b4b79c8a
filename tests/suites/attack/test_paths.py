"""Short form of `python -m tests.suites.attack.paths`: every real server, a few hundred hostile sites."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from panel.rendering import confinement
from panel.rendering.confinement import Verdict
from panel.rendering.spec import Listen, Location, ServerBlock, SiteSpec
from tests.suites.attack.paths.folders import SECRET, laid_out
from tests.suites.attack.paths.runner import run
from tests.suites.attack.paths.site_server import Serving
from tests.suites.conformance.servers import engines
from tests.suites.conformance.wire import Connection, Request
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.one_database("web servers and file permissions decide; the rows are the same on each"),
]
NAMES = [engine.name for engine in engines() if engine.name != "openlitespeed"]  # too slow for every run


@pytest.mark.parametrize("name", NAMES)
def test_hostile_sites_read_no_files_of_others(name: str) -> None:
    (result,) = run(60, 12, 16, only=[name])
    assert not result.read, "\n".join(result.read[:5])
    assert result.sites > 25 and result.answered > 5, result.line()
    assert result.workers and 0 not in result.workers, "a worker runs as root"


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The panel without its analysis of paths."""
    nothing: Callable[..., Iterator[Any]] = lambda *_: iter(())  # noqa: E731
    monkeypatch.setattr(confinement, "verdict", lambda *_, **__: Verdict.CONFINED)
    monkeypatch.setattr(confinement, "is_loose", lambda _: False)
    monkeypatch.setattr(confinement, "location_faults", nothing)
    monkeypatch.setattr(confinement, "rewrite_faults", nothing)


@pytest.mark.parametrize("name", ["nginx", "apache-event"])
def test_hostile_sites_read_files_of_others_when_path_checks_are_off(unchecked: None, name: str) -> None:
    (result,) = run(60, 12, 16, only=[name])
    assert len(result.read) > 3, result.line()


@pytest.mark.parametrize("name", ["nginx", "gallop"])
def test_path_check_and_file_access_use_same_value(server_root: Path, name: str) -> None:
    """A regular expression in `if` that does not match empties $1: the check saw /x../, the file access /../."""
    (engine,) = [item for item in engines() if item.name == name]
    folders, port = laid_out(server_root / "host"), free_port()
    tried = Location("~", "^/(x|\\.\\.)\\.?(\\w+)\\.?", "static", try_files=("/$1$http_x", "/files/$2.txt", "=404"))
    block = ServerBlock((Listen(port),), ("a.test",), root=str(folders.mine), locations=(tried,))
    with Serving(engine, server_root, folders, port).running([SiteSpec("shop", (block,))]):
        for path in ("/x.bet.", "/...files.", "/...a"):
            for value in (f"../beta/{SECRET}", f"/../beta/{SECRET}", f"./../beta/{SECRET}"):
                answer = Connection(port).ask(Request(path, headers=(("X", value),)))
                assert answer.status in (403, 404) and not folders.canary(answer.body), (path, value, answer)
        answer = Connection(port).ask(Request("/xb", headers=(("X", "none"),)))
        assert answer.body == b"own b", "the location's captures are still there after the check"
