"""Values for individual hosts: places in a definition, and their text form."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from panel.placements.services import copy_name
from panel.placements.values import from_text, to_text, with_values
from panel.websites.validators import validate_slug

DEFINITION = {"notes": "", "blocks": [{"root": "/srv/a", "listens": [{"port": 80, "address": ""}]}]}
SLUGS = st.from_regex(r"[a-z0-9](-?[a-z0-9]){0,31}", fullmatch=True)
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=30) | st.lists(st.integers(), max_size=3)


def test_values_change_only_their_places() -> None:
    changed: Any = with_values(DEFINITION, {"/blocks/0/listens/0/port": 81, "/notes": "b"})
    assert changed["blocks"][0]["listens"][0] == {"port": 81, "address": ""}
    assert (changed["notes"], DEFINITION["notes"]) == ("b", "")
    assert DEFINITION["blocks"][0]["listens"][0]["port"] == 80  # type: ignore[index]


@pytest.mark.parametrize(
    "pointer", ["/blocks/1/root", "/blocks/x/root", "/blocks/0/nothing", "/notes/0", "/", "/blocks/-1/root/x"]
)
def test_place_that_the_site_does_not_have_is_refused(pointer: str) -> None:
    with pytest.raises(ValidationError):
        with_values(DEFINITION, {pointer: 1})


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True),
        st.dictionaries(st.from_regex(r"/[a-z_]{1,8}(/[0-9])?", fullmatch=True), SCALARS, min_size=1, max_size=3),
        max_size=3,
    )
)
def test_text_form_is_read_back(values: dict[str, dict[str, Any]]) -> None:
    assert from_text(to_text(values)) == values


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    found: dict[str, Any] = {}
    with contextlib.suppress(ValidationError):
        found = from_text(text)
    assert all(host and own for host, own in found.items())


@given(SLUGS, SLUGS)
def test_name_of_a_copy_is_a_valid_name(site: str, host: str) -> None:
    name = copy_name(site, host)
    validate_slug(name)
    assert len(name) <= 63
