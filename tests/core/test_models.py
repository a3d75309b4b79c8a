"""Validation of a row needs few queries and finds every fault."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from panel.websites.models import ServerBlock, Site
from tests.support.cast import cast

pytestmark = pytest.mark.django_db


def test_full_clean_queries_only_unique_fields(django_assert_num_queries: Any) -> None:
    people = cast()
    site = Site(name="shop", team=people.team, web_server=people.nginx)
    with django_assert_num_queries(1):
        site.full_clean()


def test_dangling_foreign_key_is_rejected_at_its_field() -> None:
    people = cast()
    with pytest.raises(ValidationError) as refused:
        Site(name="shop", team_id=people.team.pk + 1000).full_clean()
    assert set(refused.value.error_dict) == {"team"}


def test_foreign_key_to_deleted_or_unsaved_row_is_rejected() -> None:
    people = cast()
    site = Site.objects.create(name="shop", team=people.team)
    block = ServerBlock(site=site)
    site.delete()
    for row in (block, ServerBlock(site=Site(name="draft", team=people.team))):
        with pytest.raises(ValidationError) as refused:
            row.full_clean()
        assert "site" in refused.value.error_dict
