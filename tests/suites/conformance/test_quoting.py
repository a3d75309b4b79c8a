"""Short form of `make quoting`: hostile values, with the servers' own tests."""

from __future__ import annotations

import pytest

from tests.rendering.escaping import WEB_SERVERS
from tests.rendering.hostile import FIELDS
from tests.suites.conformance.quoting import REFUSED, TAKEN, run


@pytest.mark.parametrize("engine", WEB_SERVERS)
def test_hostile_values_never_leave_their_word(engine: str) -> None:
    for field in FIELDS:
        found = run(engine, field, 12, 20260701)
        assert not found.unexplained, "\n".join(map(str, found.unexplained))
        assert found.known[REFUSED] + found.known[TAKEN] == found.compared == 12
