"""Brotli where a site asks for it and the server has it; otherwise gzip, as documented."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from panel.rendering.capabilities import differences
from panel.rendering.spec import Location
from tests.suites.conformance.compare import answers
from tests.suites.conformance.expected_responses import one
from tests.suites.conformance.servers import BROTLI_MODULE, NGINX, NGINX_WITH_BROTLI, Engine, engines, serving
from tests.suites.conformance.wire import Request
from tests.suites.conformance.world import world
from tests.support.process import tool

TEXT = "long enough to be worth it. " * 200


def _unpacked(port: int) -> str:
    argv = [tool("curl"), "-s", "--compressed", "--max-time", "60", "-H", "Host: a.test"]
    return subprocess.run([*argv, f"http://127.0.0.1:{port}/a.txt"], capture_output=True, text=True, check=True).stdout


def _aged(www: str, *names: str) -> None:
    """OpenLiteSpeed keeps no compressed copy of a file that was written in the second of the request."""
    for name in names:
        os.utime(Path(www) / name, (1_700_000_000, 1_700_000_000))


# What a distribution offers as a package need not be installed; where it is, nginx is one more server of these.
SERVERS = [*engines(), *([NGINX_WITH_BROTLI] if BROTLI_MODULE.exists() else [])]


@pytest.mark.parametrize("engine", SERVERS, ids=lambda engine: engine.name)
def test_brotli_is_used_or_documented_as_not_offered(engine: Engine, server_root: Path) -> None:
    with world(server_root, {"a.txt": TEXT, "plain/a.txt": TEXT}) as here:
        _aged(here.www, "a.txt", "plain/a.txt")
        places = (Location("", "/", "static"), Location("", "/plain/", "static", gzip="off"))
        spec = one(here, "brotli", *places, gzip="on", brotli="on", gzip_types=("text/plain",))
        with serving(engine, [spec], server_root, here.port) as web_server:
            shown = {item.field.rpartition("/")[2]: item.severity for item in differences(spec, web_server)}
            offered = "brotli" not in shown
            takes = ("gzip, br", "gzip", "br", "")
            asked = [Request("/a.txt", headers=(("Accept-Encoding", value),)) for value in takes]
            asked.append(Request("/plain/a.txt", headers=(("Accept-Encoding", "gzip, br"),)))
            found = [answer.headers.get("content-encoding", "") for answer in answers(here.port, asked)]
            best = "br" if offered else "gzip"
            place_of_its_own = best if shown.get("gzip") == "not_offered" else ""
            assert found == [best, "gzip", "br" if offered else "", "", place_of_its_own]
            assert offered == (engine != NGINX)
            assert _unpacked(here.port) == TEXT
