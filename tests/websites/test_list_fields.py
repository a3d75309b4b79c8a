"""List fields as lines: shown values parse back, and errors name their line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from panel.websites import lines

WORD = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="=:~[],"), min_size=1, max_size=12)
HEADER = st.fixed_dictionaries(
    {"name": WORD.filter(lambda word: not word.startswith("@")), "value": WORD, "always": st.booleans()}
) | WORD.map(lambda word: {"name": f"@{word}", "value": "", "always": True})
LISTEN = st.fixed_dictionaries(
    {
        "address": st.sampled_from(["", "127.0.0.1", "::", "2001:db8::1"]),
        "port": st.integers(1, 65535),
        "tls": st.booleans(),
        "http2": st.booleans(),
        "http3": st.booleans(),
        "default_server": st.booleans(),
    }
)
PAGE = st.fixed_dictionaries(
    {
        "codes": st.lists(st.integers(300, 599), min_size=1, max_size=3),
        "uri": WORD.map(lambda word: f"/{word}"),
        "response": st.none() | st.integers(200, 599),
    }
)
SHAPES: dict[str, tuple[Any, Callable[[Any], str], Callable[[str], Any]]] = {
    "words": (st.lists(WORD), lines.words_to_text, lines.words_from_text),
    "names": (st.lists(WORD), lines.names_to_text, lines.names_from_text),
    "listens": (st.lists(LISTEN), lines.listens_to_text, lines.listens_from_text),
    "headers": (st.lists(HEADER), lines.headers_to_text, lines.headers_from_text),
    "error pages": (st.lists(PAGE), lines.error_pages_to_text, lines.error_pages_from_text),
    "settings": (st.dictionaries(WORD, WORD), lines.settings_to_text, lines.settings_from_text),
    "access rules": (
        st.lists(st.fixed_dictionaries({"action": st.sampled_from(["allow", "deny"]), "source": WORD})),
        lines.access_rules_to_text,
        lines.access_rules_from_text,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
def test_list_field_text_parses_back_to_same_value(shape: str, data: st.DataObject) -> None:
    values, to_text, from_text = SHAPES[shape]
    value = data.draw(values)
    assert from_text(to_text(value)) == value


def test_upstream_server_line_keeps_numbers_and_flags() -> None:
    text = "10.0.0.2:3000 weight=2 max_fails=3 fail_timeout=30 backup\nunix:/run/app.sock down"
    value = lines.servers_from_text(text)
    assert value == [
        {"address": "10.0.0.2:3000", "weight": 2, "max_fails": 3, "fail_timeout_s": 30, "backup": True},
        {"address": "unix:/run/app.sock", "down": True},
    ]
    assert lines.servers_to_text(value) == text


def test_regular_expression_may_contain_spaces_and_commas() -> None:
    assert lines.names_from_text("a.example, b.example\n~^x{1,2} y$") == ["a.example", "b.example", "~^x{1,2} y$"]


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (
            lines.listens_from_text,
            "80\n443 ssl",
            "Line 2, “443 ssl”: “ssl” is not an option. Known options: tls, http2, http3, default.",
        ),
        (lines.listens_from_text, "99999", "Line 1, “99999”: enter a port"),
        (lines.headers_from_text, "X-A: 1\nnonsense", "Line 2, “nonsense”: enter Name: value."),
        (lines.error_pages_from_text, "404 /x.html", "Line 1, “404 /x.html”: enter status codes, =, and the page"),
        (lines.access_rules_from_text, "permit all", "Line 1, “permit all”: enter allow or deny"),
        (lines.settings_from_text, "a = 1\na = 2", "Line 2, “a = 2”: a appears twice."),
        (lines.servers_from_text, "h:1 weight=x", "“weight=x” is not an option. Known options: weight=2"),
    ],
)
def test_list_field_error_names_line_and_valid_value(read: Callable[[str], Any], text: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read(text)
    assert words in caught.value.messages[0]


def test_list_field_error_never_echoes_password() -> None:
    with pytest.raises(ValidationError) as caught:
        lines.users_from_text("hunter2-without-a-name")
    assert "hunter2" not in caught.value.messages[0]
