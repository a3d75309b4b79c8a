"""What the real OpenLiteSpeed reads and what our reader reads are one thing: shown where PADDOCK_OPENLITESPEED names an
installation. The distribution has none; what the reader alone says of the values is in tests/rendering, everywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panel.rendering.readers import Read, openlitespeed
from tests.conformance import readback
from tests.support.openlitespeed import source

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

    def test_lines_blocks_and_texts_are_read_alike() -> None:
        text = WRITTEN.rpartition("}")[0]
        assert [item.name for item in openlitespeed.read(text)] == [
            "docroot",
            "index",
            "long",
            "context",
            "extraheaders",
        ]
        assert readback.read_back([("x", [text])]) == []

    def test_what_the_server_reads_otherwise_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readback, "openlitespeed", Wrong)
        faults = readback.read_back([("the value", ["docRoot /srv/www\n"])])
        assert faults == ["'the value': the server reads 'zzdocroot /srv/www', not 'zzdocroot /srv/ww'"]


class Wrong:
    BLANK = openlitespeed.BLANK
    read = staticmethod(read_without_its_end)


def test_each_line_is_handed_over_as_it_is_but_for_its_key() -> None:
    (item,) = openlitespeed.read("  docRoot  /a b  ")
    assert readback._unknown(["  docRoot  /a b  "], item) == ["zzdocRoot  /a b"]
    assert readback._words(item) == "zzdocroot /a b"
    assert readback._words(replace(item, args=("é\t.",))) == "zzdocroot ...."
