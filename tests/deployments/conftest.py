from __future__ import annotations

import pytest

from panel.hosts.models import HostStatus
from tests.support.cast import Cast, cast


@pytest.fixture
def people(db: None) -> Cast:
    """The cast, on a host that cannot be asked: what is tested here is the panel's own side."""
    found = cast()
    found.host.status = HostStatus.UNREACHABLE
    found.host.status_detail = "web-1 does not answer."
    found.host.save()
    return found
