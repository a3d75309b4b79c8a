"""No value escapes its line on OpenLiteSpeed: what the grammar cannot carry is refused, the rest comes back exactly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.rendering import render, render_install
from panel.rendering.errors import NotExpressible
from panel.rendering.openlitespeed.quoting import value as line_value
from panel.rendering.readers import Read, openlitespeed
from panel.rendering.spec import InstallSpec
from tests.rendering.hostile import FIELDS, HARMLESS, HARMLESS_VALUES, values

INSTALL = InstallSpec("openlitespeed", "vhosts", "/usr/local/lsws/conf", "/var/log", site_roots=("/srv",))


def texts(field: str, value: str) -> list[str]:
    spec = FIELDS[field](value)
    files = [*render(spec, INSTALL), *render_install([spec], INSTALL)]
    return [file.text for file in files if not file.is_secret]


def shape(item: Read) -> object:
    """Without values; the lines of rewrite rules are read by their own test on Apache."""
    return (item.name, len(item.args), [shape(child) for child in item.body or ()])


@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=50, deadline=None)
@given(value=values)
def test_no_value_changes_the_structure(field: str, value: str) -> None:
    try:
        ours = texts(field, value)
    except NotExpressible as refusal:
        assert refusal.field.startswith("/")
        return
    plain = HARMLESS_VALUES.get(field, HARMLESS)
    # A prefix with a final / may become a prefix context, one without a regular expression.
    harmless = texts(field, plain + "/" if "prefix" in field and value.endswith("/") else plain)
    if field in ("regex name", "server name", "expires", "return url", "regex alias"):
        harmless = ours  # the kind of name or time decides what is written: then it must only be readable
    for text, plain in zip(ours, harmless, strict=True):
        assert [shape(item) for item in openlitespeed.read(text)] == [shape(item) for item in openlitespeed.read(plain)]


@settings(max_examples=800, deadline=None)
@given(value=st.text(max_size=40) | values)
def test_a_value_comes_back_as_it_was_or_is_refused(value: str) -> None:
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
def test_what_a_line_cannot_carry_is_refused(value: str) -> None:
    with pytest.raises(NotExpressible) as refusal:
        line_value(value, "/blocks/0/root")
    assert refusal.value.field == "/blocks/0/root"
