"""A cleared cache of a running server is filled by the next request."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from agents.host import empty
from panel.rendering import caching
from panel.rendering.capabilities import differences
from panel.rendering.spec import Cache, CacheTime, Location
from tests.suites.conformance.compare import answers
from tests.suites.conformance.expected_responses import one
from tests.suites.conformance.servers import OPENLITESPEED, Engine, engines, serving
from tests.suites.conformance.wire import Request
from tests.suites.conformance.world import world
from tests.support.waiting import eventually

CANNOT = "OpenLiteSpeed cannot clear its cache on request"


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)
def test_cleared_cache_is_filled_again(engine: Engine, server_root: Path) -> None:
    with world(server_root, {}) as here:
        cache = Cache((CacheTime((200, 301), 3600),))
        spec = one(here, "emptied", Location("", "/", "proxy", upstream="app", cache=cache))
        with serving(engine, [spec], server_root, here.port) as web_server:

            def times() -> list[bytes]:
                return [answer.body for answer in answers(here.port, [Request("/counted/a")] * 2)]

            if engine == OPENLITESPEED:  # which keeps nothing for a second after its start, and is not asked to forget
                assert eventually(lambda: len(set(times())) == 1)
                assert CANNOT in [item.what for item in differences(spec, web_server)]
                return
            assert times() == [b"/counted/a 1"] * 2
            assert CANNOT not in [item.what for item in differences(spec, web_server)]
            folders = caching.folders(spec, web_server)
            found = empty.run({"folders": folders, "roots": [str(server_root)]}, lambda event: None, Event())
            assert found["files"] >= 1
            assert times() == [b"/counted/a 2"] * 2
