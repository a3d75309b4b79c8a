"""The access log lines of each server in every format of the model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from panel.rendering.capabilities import differences
from panel.rendering.spec import Listen, ServerBlock, SiteSpec
from tests.suites.conformance.compare import answers
from tests.suites.conformance.expected_responses import fixed
from tests.suites.conformance.servers import Engine, engines, serving
from tests.suites.conformance.wire import Request
from tests.support.ports import free_port
from tests.support.waiting import eventually

COMMON = r'127\.0\.0\.1 - - \[[^\]]+\] "GET /page\?q=1 HTTP/1\.1" 200 4'
COMBINED = r'127\.0\.0\.1 - - \[[^\]]+\] "GET /page\?q=1 HTTP/1\.1" 200 \d+ "-" "a \\?(?:"|x22)quoted\\?(?:"|x22) one"'
LINES = {"": COMBINED, "common": COMMON, "timed": COMBINED + r" [\d.]+"}


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)
def test_access_log_formats_are_written_as_documented(engine: Engine, server_root: Path) -> None:
    port, logs = free_port(), server_root / engine.name / "log"
    blocks = tuple(
        ServerBlock(
            (Listen(port),),
            (f"{form or 'combined'}.test",),
            locations=(fixed("", "/", "text"),),
            access_log=f"{logs}/{form or 'combined'}.log",
            access_log_format=form,  # type: ignore[arg-type]
        )
        for form in ("", "common", "timed", "json")
    )
    asked = [Request("/page?q=1", host=block.names[0], headers=(("User-Agent", 'a "quoted" one'),)) for block in blocks]
    spec = SiteSpec("logs", blocks)
    with serving(engine, [spec], server_root, port) as web_server:
        rows = [item for item in differences(spec, web_server) if item.field.endswith("/access_log_format")]
        assert [answer.status for answer in answers(port, asked)] == [200] * 4
        assert eventually(lambda: all("GET /page" in _text(block) for block in blocks), every_s=0.05)
    for block in blocks:
        # The request that waited for the server may be logged later than this one.
        (line,) = (item for item in _text(block).splitlines() if "GET /page" in item)
        if block.access_log_format == "json" and any(item.severity == "not_offered" for item in rows):
            assert engine.engine == "openlitespeed" and re.fullmatch(COMBINED, line), line
        elif block.access_log_format == "json":
            said = json.loads(line)
            assert (said["request"], said["status"], said["bytes"]) == ("GET /page?q=1 HTTP/1.1", 200, 4)
            assert (said["host"], said["agent"]) == ("json.test", 'a "quoted" one')
            assert ("milliseconds" if engine.engine == "apache" else "seconds") in said
        else:
            assert re.fullmatch(LINES[block.access_log_format], line), line


def _text(block: ServerBlock) -> str:
    path = Path(block.access_log)
    return path.read_text() if path.exists() else ""
