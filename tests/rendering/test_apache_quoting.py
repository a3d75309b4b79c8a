"""No value leaves its word on Apache: it is rejected by name or reads back exactly."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from panel.rendering import render, render_main, render_web_server
from panel.rendering.apache.quoting import word
from panel.rendering.errors import NotExpressible
from panel.rendering.readers import Read, apache
from panel.rendering.spec import WebServerSpec
from tests.rendering.escaping import WEB_SERVERS, fault, written_or_refused
from tests.rendering.hostile import FIELDS, values
from tests.support.process import tool

WEB_SERVER = WEB_SERVERS["apache"]


def flat(items: tuple[Read, ...]) -> list[Read]:
    return [found for item in items for found in (item, *flat(item.body or ()))]


@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=50, deadline=None)
@given(value=values)
def test_apache_value_never_changes_structure(field: str, value: str) -> None:
    if (written := written_or_refused("apache", field, value)) is not None:
        assert not fault("apache", field, value, written)
        assert not any("${" in text for text in written)


@settings(max_examples=800, deadline=None)
@given(value=st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r\0"), max_size=40))
def test_apache_word_round_trips(value: str) -> None:
    (read,) = apache.read(f"Name {word(value)}")
    assert read.args == (value,)


@settings(max_examples=300, deadline=None)
@given(value=values)
def test_apache_sends_header_value_exactly(value: str) -> None:
    try:
        text = render(FIELDS["header value"](value.replace("$", "$$")), WEB_SERVER)[0].text
    except NotExpressible:
        assert re.search(r"[\x00-\x1f\x7f]|^ | $", value)
        return
    (found,) = [item.args[3] for item in flat(apache.read(text)) if item.name == "Header" and "X-A" in item.args]
    if found.startswith("expr="):
        assert re.sub(r"\\(.)", r"\1", found.removeprefix("expr=")) == value
    else:
        assert found.replace("%%", "%") == value


@pytest.mark.parametrize("field", ["header value", "root", "return body", "realm", "regex", "error page", "exact path"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values)
def test_apache_accepts_every_value_not_rejected(field: str, value: str, server_root: Path) -> None:
    web_server = WebServerSpec("apache", "sites", f"{server_root}/etc", "/var/log", own_ports=frozenset())
    spec = FIELDS[field](value)
    try:
        (site, *_) = render(spec, web_server)
    except NotExpressible:
        return
    (main,) = render_main(web_server, temp_dir=str(server_root))
    (listen, _) = render_web_server([spec], web_server)
    config = server_root / "all.conf"
    main_text = main.text.replace("IncludeOptional sites-enabled/*.conf", "").replace("/var/log", str(server_root))
    config.write_text(main_text.replace(f"ServerRoot {server_root}/etc", f"ServerRoot {server_root}"))
    with config.open("a") as sink:
        sink.write(listen.text + site.text)
    done = subprocess.run([tool("apache2", "httpd"), "-t", "-f", str(config)], capture_output=True, text=True)
    if done.returncode:  # PCRE knows best what an expression is
        assert "Regular expression" in done.stderr or "could not be compiled" in done.stderr, done.stderr
        assert "regex" in field or "path" in field
