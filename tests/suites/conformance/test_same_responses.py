"""One definition gives the same responses on nginx, Apache (event and prefork) and gallop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.conformance import fixed_cases
from tests.suites.conformance.compare import departures
from tests.suites.conformance.generator import FILES, generate
from tests.suites.conformance.servers import NGINX, Engine, engines
from tests.suites.conformance.world import world

OTHERS = [engine for engine in engines() if engine != NGINX]


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)
def test_fixed_cases_get_expected_responses(engine: Engine, server_root: Path) -> None:
    with world(server_root, fixed_cases.FILES) as here:
        asked, wrong = fixed_cases.run(engine, server_root, here)
    assert not wrong, "\n".join(wrong)
    assert asked > 100


@pytest.mark.parametrize("engine", OTHERS, ids=lambda engine: engine.name)
def test_generated_sites_respond_like_nginx(engine: Engine, server_root: Path) -> None:
    """`make conformance` is the long form."""
    with world(server_root, FILES) as here:
        found = generate(here, sites=25, requests=20, chance=20260701)
        outcome = departures([engine], found, server_root, here.port)
    assert not outcome.unexplained, "\n".join(map(str, outcome.unexplained))
    # OpenLiteSpeed cannot have every site; which, the editor says before anything is deployed.
    assert outcome.compared == 500 or (engine.engine == "openlitespeed" and outcome.compared >= 100)
