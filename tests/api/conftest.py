from __future__ import annotations

import pytest
from django.test import Client

from tests.api.caller import Caller, caller_of
from tests.support.cast import Cast, cast


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def admin(people: Cast) -> Caller:
    return caller_of(people.admin)


@pytest.fixture
def owner(people: Cast) -> Caller:
    return caller_of(people.owner)


@pytest.fixture
def viewer(people: Cast) -> Caller:
    return caller_of(people.viewer)


@pytest.fixture
def outsider(people: Cast) -> Caller:
    return caller_of(people.outsider)


@pytest.fixture
def anonymous(db: None) -> Client:
    return Client()
