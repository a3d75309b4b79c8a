"""What the real OpenLiteSpeed reads of what was written for it, beside what our exact reader reads.

Its test says of a key that it does not know which key and value it read, and in which line: `Not support [KEY VALUE] in
file PATH:LINE`. So every line and every block's head of a rendered file is handed to it as it is but for two letters
before its key, which make it unknown, and its words are compared with the reader's. They show bytes beyond ASCII and
control characters as dots; a text of more than MAX_ECHO bytes may be cut off and is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from panel.rendering.readers import Read, openlitespeed
from tests.support.openlitespeed import OpenLiteSpeedInstance

MARK = "zz"
MAX_ECHO = 1000
TRIES = 3  # all tests of a machine write to one file, /tmp/lshttpd/testconf: one that runs beside it may take the words
HOST = "\nvirtualHost readback {{\n  vhRoot {root}/www\n  configFile {file}\n}}\n"


def read_back(batch: Iterable[tuple[str, list[str]]]) -> list[str]:
    """What the server reads otherwise than the reader of these (value, files)."""
    text: list[str] = []
    expected: dict[int, tuple[str, str]] = {}  # by line: the value, and what the reader reads there
    for value, files in batch:
        for written in files:
            lines = written.split("\n")
            for item in _flat(openlitespeed.read(written)):
                text += _unknown(lines, item)
                # The last line of a text is where the server says that it stands.
                number = len(text) - 1 if item.body is not None else len(text)
                expected[number] = (value, _words(item))
    found = _said("\n".join([*text, ""]))
    faults = []
    for number, (value, words) in expected.items():
        theirs = found.pop(number, None)
        if len(words) <= MAX_ECHO and theirs != words:
            faults.append(f"{value!r}: the server reads {theirs!r}, not {words!r}")
    return faults + [f"the server reads {words!r} where nothing is said" for words in found.values()]


def _flat(items: Iterable[Read]) -> Iterator[Read]:
    for item in items:
        yield item
        yield from _flat(item.body or ())


def _unknown(lines: list[str], item: Read) -> list[str]:
    """The item's own lines with a key that the server does not know; a block's are its head and an end."""
    first, *more = lines[item.line - 1 : item.end]
    return [MARK + first.strip(openlitespeed.BLANK), *(more if item.body is None else ["}"])]


def _words(item: Read) -> str:
    """As its log shows them."""
    read = " ".join([MARK + item.name, *item.args]).encode()
    return "".join(chr(byte) if 32 <= byte < 127 or byte == 10 else "." for byte in read)


def _said(text: str) -> dict[int, str]:
    """Keys and values by the number of their line."""
    folder, server = _server()
    file = Path(folder.name) / "read.conf"
    file.write_text(text)
    pattern = re.compile(rf"Not support \[({MARK}.*?) ?\] in file {re.escape(str(file))}:(\d+)\n", re.S)
    for _attempt in range(TRIES):
        if found := {int(match[2]): match[1] for match in pattern.finditer(server.run("-t").stdout)}:
            break
    return found


@cache
def _server() -> tuple[TemporaryDirectory[str], OpenLiteSpeedInstance]:
    """The folder is gone with this process."""
    folder = TemporaryDirectory(prefix="pd-")
    server = OpenLiteSpeedInstance(Path(folder.name) / "lsws")
    return folder, server.manage(HOST.format(root=server.root, file=f"{folder.name}/read.conf"))
