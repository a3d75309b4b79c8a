"""The real OpenLiteSpeed reads configuration as our reader does, where PADDOCK_OPENLITESPEED names an installation. The
tests of the reader alone are in tests/rendering."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from panel.rendering import render, render_web_server
from panel.rendering.readers import Read, openlitespeed
from panel.rendering.spec import Header, Listen, Location, ServerBlock, SiteSpec, WebServerSpec
from tests.rendering.escaping import written_or_refused
from tests.rendering.servers import write_files
from tests.suites.conformance import readback
from tests.suites.conformance.quoting import values
from tests.support.http_client import ask
from tests.support.openlitespeed import OpenLiteSpeedInstance, source
from tests.support.ports import free_port
from tests.support.waiting import eventually

# What may stand in an answer with a file.
KNOWN = {"x-own", "etag", "last-modified", "content-type", "content-length", "accept-ranges", "date", "server"} | {
    "connection", "keep-alive", "vary", "expires", "cache-control",
}  # fmt: skip
# What the server would take for quotes, formats and words of its own.
ODD = [
    '"a" b',
    "'x",
    '"',
    "it's early",
    "early",
    "100%",
    "%%",
    "%{HTTP_HOST}e",
    "%t",
    'a\\"b',
    "a,early",
    "expr=1",
    "always",
]

WRITTEN = """\
# a comment
docRoot   /srv/www
\tindex  one.html, two.html
long a\\
b
context /x {y {
  note "quoted" $VH_ROOT # no comment
}
extraHeaders <<<END_x
Header set A {
  }

# kept
end_X
}
"""


def read_without_its_end(text: str) -> tuple[Read, ...]:
    """A reader that takes the last letter of every value for something else."""
    return tuple(replace(item, args=tuple(arg[:-1] for arg in item.args)) for item in openlitespeed.read(text))


if source() is not None:

    def test_openlitespeed_reads_lines_like_our_reader() -> None:
        text = WRITTEN.rpartition("}")[0]
        assert [item.name for item in openlitespeed.read(text)] == [
            "docroot",
            "index",
            "long",
            "context",
            "extraheaders",
        ]
        assert readback.read_back([("x", [text])]) == []

    def test_openlitespeed_responses_contain_written_values(server_root: Path) -> None:
        """Hostile header values and fixed responses, each in its own location."""
        sent = [*ODD, *_written("header value")]
        bodies = _written("return body")
        server = OpenLiteSpeedInstance(server_root / "lsws").manage()
        port = _serve(server, sent, bodies)
        with server:
            assert eventually(lambda: ask(port, "/page.txt", host="a.test").status == 200)
            for number, value in enumerate(sent):
                found = ask(port, f"/headers/{number}.txt", host="a.test").headers
                assert found.get("x-own", "").encode("latin-1").decode() == value.strip(" \t")
                assert set(found) <= KNOWN
            for number, value in enumerate(bodies):
                assert ask(port, f"/bodies/{number}", host="a.test").text == value

    def _written(field: str) -> list[str]:
        """100 values that are fixed and not refused."""
        plain = (value for value in values(field, 600, 20261122) if "$" not in value)
        return [value for value in plain if written_or_refused("openlitespeed", field, value) is not None][:100]

    def _serve(server: OpenLiteSpeedInstance, sent: list[str], bodies: list[str]) -> int:
        """The port of a site whose locations say these headers and these texts."""
        port, www = free_port(), server.root / "www"
        (www / "headers").mkdir()
        for name in ("page.txt", *(f"headers/{number}.txt" for number in range(len(sent)))):
            (www / name).write_text("page")
        places = [
            Location("=", f"/headers/{number}.txt", "static", headers=(Header("X-Own", value),))
            for number, value in enumerate(sent)
        ]
        places += [
            Location("=", f"/bodies/{number}", "return", return_code=200, return_value=value)
            for number, value in enumerate(bodies)
        ]
        spec = SiteSpec("a", (ServerBlock((Listen(port),), ("a.test",), str(www), locations=tuple(places)),))
        web_server = WebServerSpec("openlitespeed", "vhosts", f"{server.root}/conf", f"{server.root}/log", "1.9.1")
        write_files([*render(spec, web_server), *render_web_server([spec], web_server)], server.root.parent)
        return port

    def test_readback_names_differing_values(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readback, "openlitespeed", Wrong)
        faults = readback.read_back([("the value", ["docRoot /srv/www\n"])])
        assert faults == ["'the value': the server reads 'zzdocroot /srv/www', not 'zzdocroot /srv/ww'"]


class Wrong:
    BLANK = openlitespeed.BLANK
    read = staticmethod(read_without_its_end)


def test_readback_keeps_each_line_except_key() -> None:
    (item,) = openlitespeed.read("  docRoot  /a b  ")
    assert readback._unknown(["  docRoot  /a b  "], item) == ["zzdocRoot  /a b"]
    assert readback._words(item) == "zzdocroot /a b"
    assert readback._words(replace(item, args=("é\t.",))) == "zzdocroot ...."
