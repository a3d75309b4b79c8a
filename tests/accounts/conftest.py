from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from tests.support.cast import Cast, cast

PASSWORD = "correct horse battery"


@pytest.fixture
def people(db: None, settings: Settings) -> Cast:
    """The shared cast, each with the password PASSWORD, hashed cheaply."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    found = cast()
    for person in (found.admin, found.owner, found.viewer, found.outsider):
        person.set_password(PASSWORD)
        person.save()
    return found


@pytest.fixture
def signed_in(client: Client, people: Cast) -> Client:
    """Signed in through the page as the administrator, so that the session is as it really is."""
    answer = client.post("/login/", {"username": "ada", "password": PASSWORD})
    assert answer.status_code == 302
    return client
