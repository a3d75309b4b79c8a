"""No value leaves its line on OpenLiteSpeed: it is rejected or reads back exactly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.rendering.errors import NotExpressible
from panel.rendering.openlitespeed.quoting import header
from panel.rendering.openlitespeed.quoting import value as line_value
from panel.rendering.readers import openlitespeed
from tests.rendering.escaping import fault, written_or_refused
from tests.rendering.hostile import FIELDS, values


@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=50, deadline=None)
@given(value=values)
def test_openlitespeed_value_never_changes_structure(field: str, value: str) -> None:
    if (written := written_or_refused("openlitespeed", field, value)) is not None:
        assert not fault("openlitespeed", field, value, written)


@settings(max_examples=800, deadline=None)
@given(value=st.text(max_size=40) | values)
def test_openlitespeed_value_round_trips_or_is_rejected(value: str) -> None:
    try:
        written = line_value(value, "/x")
    except NotExpressible:
        return
    if re.search(r"[\x00-\x1f\x7f]", value):
        return  # refused before a value gets here: checks.text
    (first, second) = openlitespeed.read(f"docRoot {written}\nindex {{\n}}")
    assert first.args == (value,)
    assert second.body == ()


@pytest.mark.parametrize(
    "value", ["a {", "a\\", "a\nb", " a", "a ", "", "a <<<END", "$VH_ROOT/x", "$doc_root", "x" * 9000]
)
def test_openlitespeed_value_that_line_cannot_hold_is_rejected(value: str) -> None:
    with pytest.raises(NotExpressible) as refusal:
        line_value(value, "/blocks/0/root")
    assert refusal.value.field == "/blocks/0/root"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ('a "b" c', 'a "b" c'),
        ('"a" b', "'\"a\" b'"),
        ("'x", '"\'x"'),
        ("it's early", '"it\'s early"'),
        ("earlyx", "earlyx"),
        ("always", "always"),
    ],
)
def test_openlitespeed_header_is_quoted_when_needed(text: str, written: str) -> None:
    assert header(text, "/x") == written


@pytest.mark.parametrize("text", ["\"it's", "a' b\" early", "a env=X", "ENV=!x"])
def test_openlitespeed_header_that_quotes_cannot_hold_is_rejected(text: str) -> None:
    with pytest.raises(NotExpressible) as refusal:
        header(text, "/blocks/0/headers/0/value")
    assert refusal.value.field == "/blocks/0/headers/0/value"
