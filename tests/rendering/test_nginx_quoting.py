"""No value leaves its word on nginx: it is rejected by name or reads back exactly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.rendering import render
from panel.rendering.errors import NotExpressible
from panel.rendering.nginx.quoting import word
from panel.rendering.readers import nginx
from tests.rendering.crossplane_reader import disagreement, words
from tests.rendering.escaping import WEB_SERVERS, fault, written_or_refused
from tests.rendering.hostile import FIELDS, values

WEB_SERVER = WEB_SERVERS["nginx"]


@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=50, deadline=None)
@given(value=values)
def test_nginx_value_never_changes_structure(field: str, value: str) -> None:
    if (written := written_or_refused("nginx", field, value)) is not None:
        assert not fault("nginx", field, value, written)
        assert not disagreement([(value, written)])


@settings(max_examples=800, deadline=None)
@given(value=st.text(min_size=0, max_size=40) | values)
def test_nginx_word_round_trips(value: str) -> None:
    (read,) = nginx.read(f"name {word(value)};")
    assert read.args == (value,)


@settings(max_examples=300, deadline=None)
@given(value=values)
def test_nginx_sends_fixed_response_exactly(value: str) -> None:
    """Each dollar sign is literal, written as `$$`."""
    try:
        text = render(FIELDS["return body"](value.replace("$", "$$")), WEB_SERVER)[0].text
    except NotExpressible:
        assert re.search(r"[\x00-\x08\x0b-\x1f\x7f]", value)
        return
    (body,) = [words[2] for words in words(nginx.read(text)) if words[:2] == ["return", "200"]]
    assert body.replace("${paddock_site_dollar}", "$") == value
