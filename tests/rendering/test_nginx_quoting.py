"""No value escapes its word: hostile values are refused by name, or come back exactly and change no structure."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import crossplane
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.rendering import render
from panel.rendering.errors import NotExpressible
from panel.rendering.nginx.quoting import word
from panel.rendering.readers import Read, nginx
from panel.rendering.spec import InstallSpec
from tests.rendering.hostile import FIELDS, HARMLESS, HARMLESS_VALUES, values

INSTALL = InstallSpec("nginx", "conf_d", "/etc/nginx", "/var/log", "1.22.1", site_roots=("/srv",))
ESCAPE = re.compile(r"\\([\"'\\trn])")


def tree(text: str) -> tuple[Read, ...]:
    """The server's own grammar's tree, without the helper that holds a dollar sign."""
    return tuple(item for item in nginx.read(text) if item.name != "geo")


def crossplane_words(text: str) -> list[list[str]]:
    """Every directive's words as crossplane, an independent parser, reads them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "site.conf"
        path.write_text(text)
        parsed = crossplane.parse(str(path), single=True, check_ctx=False, check_args=False)
    assert parsed["status"] == "ok", parsed["errors"]
    names = {"t": "\t", "r": "\r", "n": "\n"}
    found: list[list[str]] = []

    def walk(items: list[dict[str, Any]]) -> None:
        for item in items:
            words = [item["directive"], *item["args"]]
            found.append([ESCAPE.sub(lambda hit: names.get(hit[1], hit[1]), text) for text in words])
            walk(item.get("block", []))

    walk(parsed["config"][0]["parsed"])
    return found


def flat(items: tuple[Read, ...]) -> list[list[str]]:
    return [words for item in items for words in ([item.name, *item.args], *flat(item.body or ()))]


@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=50, deadline=None)
@given(value=values)
def test_no_value_changes_the_structure(field: str, value: str) -> None:
    build = FIELDS[field]
    try:
        text = render(build(value), INSTALL)[0].text
    except NotExpressible as refusal:
        assert refusal.field.startswith("/")
        return
    harmless = render(build(HARMLESS_VALUES.get(field, HARMLESS)), INSTALL)[0].text
    ours, plain = tree(text), tree(harmless)
    assert [item.shape() for item in ours] == [item.shape() for item in plain]
    assert crossplane_words(text) == flat(nginx.read(text))


@settings(max_examples=800, deadline=None)
@given(value=st.text(min_size=0, max_size=40) | values)
def test_any_word_comes_back_as_it_was(value: str) -> None:
    (read,) = nginx.read(f"name {word(value)};")
    assert read.args == (value,)


@settings(max_examples=300, deadline=None)
@given(value=values)
def test_a_fixed_answer_arrives_exactly(value: str) -> None:
    """Every dollar sign is meant literally here, as `$$` says."""
    try:
        text = render(FIELDS["return body"](value.replace("$", "$$")), INSTALL)[0].text
    except NotExpressible:
        assert re.search(r"[\x00-\x08\x0b-\x1f\x7f]", value)
        return
    (body,) = [words[2] for words in flat(nginx.read(text)) if words[:2] == ["return", "200"]]
    assert body.replace("${paddock_site_dollar}", "$") == value
