"""The people, the sample site and the signed-in clients of the site page tests."""

from __future__ import annotations

from tests.websites.conftest import admin, outsider, owner, people, shop, viewer  # noqa: F401
