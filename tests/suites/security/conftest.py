from __future__ import annotations

import pytest
from django.test import Client

from panel.accounts.models import User
from tests.suites.security.world import World, build


@pytest.fixture
def world(db: None) -> World:
    return build()


def session_of(user: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client
