"""What checking a row costs, and that less of it overlooks nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from panel.websites.models import ServerBlock, Site
from tests.support.cast import cast

pytestmark = pytest.mark.django_db


def test_a_row_is_checked_with_a_query_for_what_may_be_there_only_once(django_assert_num_queries: Any) -> None:
    people = cast()
    site = Site(name="shop", team=people.team, install=people.nginx)
    with django_assert_num_queries(1):
        site.full_clean()


def test_a_key_that_leads_nowhere_is_refused_at_its_field() -> None:
    people = cast()
    with pytest.raises(ValidationError) as refused:
        Site(name="shop", team_id=people.team.pk + 1000).full_clean()
    assert set(refused.value.error_dict) == {"team"}


def test_a_row_that_was_deleted_or_never_stored_is_no_row_to_lead_to() -> None:
    people = cast()
    site = Site.objects.create(name="shop", team=people.team)
    block = ServerBlock(site=site)
    site.delete()
    for row in (block, ServerBlock(site=Site(name="draft", team=people.team))):
        with pytest.raises(ValidationError) as refused:
            row.full_clean()
        assert "site" in refused.value.error_dict
