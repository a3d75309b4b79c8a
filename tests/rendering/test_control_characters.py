"""Control characters are rejected in every value, before a renderer quotes it."""

from __future__ import annotations

import pytest

from panel.rendering import render
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import ENGINE_NAMES, EngineName, WebServerSpec
from tests.rendering.hostile import FIELDS, located


@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize("character", ["\0", "\x01", "\r", "\x1b", "\x7f"])
@pytest.mark.parametrize("field", FIELDS)
def test_control_characters_are_rejected_in_every_field(field: str, character: str, engine: EngineName) -> None:
    web_server = WebServerSpec(engine, "conf_d", "/etc/server", "/var/log", site_roots=("/srv",))
    for value in (character, f"a{character}b"):
        with pytest.raises(NotExpressible):
            render(FIELDS[field](value), web_server)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_invalid_status_is_rejected(engine: EngineName) -> None:
    web_server = WebServerSpec(engine, "conf_d", "/etc/server", "/var/log", site_roots=("/srv",))
    with pytest.raises(NotExpressible, match="use 200 to 599"):
        render(located(handler="return", return_code=99, return_value="gone"), web_server)
