"""Parse OpenLiteSpeed's plain-text configuration grammar. Source: src/main/plainconf.cpp."""

from __future__ import annotations

from panel.rendering.readers import Read, Unreadable

BLANK = " \t\r\n"
MAX_LINE_BYTES = 8192


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.position = 0
        self.stack: list[tuple[str, tuple[str, ...], int, list[Read]]] = [("", (), 0, [])]

    def read(self) -> tuple[Read, ...]:
        while self.position < len(self.lines):
            number, line = self._logical()
            while line.startswith("}"):
                self._close(number)
                line = line[1:].strip(BLANK)
            if line and not line.startswith("#"):
                self._take(number, line)
        if len(self.stack) > 1:
            raise Unreadable(self.stack[-1][2], f"the block {self.stack[-1][0]} is never closed; add }}")
        return tuple(self.stack[0][3])

    def _logical(self) -> tuple[int, str]:
        """Return (line number, text) of the next logical line. A line that ends in exactly one backslash is joined with
        the next.
        """
        number, joined = self.position + 1, ""
        while self.position < len(self.lines):
            line = self.lines[self.position].strip(BLANK)
            self.position += 1
            if len(line.encode()) >= MAX_LINE_BYTES:
                raise Unreadable(self.position, f"the line is longer than {MAX_LINE_BYTES - 1} bytes; shorten it")
            if not line.endswith("\\") or line.endswith("\\\\") or line.startswith("#"):
                return number, joined + line
            joined += line[:-1]
        raise Unreadable(number, "the text ends in a backslash, which would join the next line; remove it")

    def _close(self, number: int) -> None:
        if len(self.stack) == 1:
            raise Unreadable(number, "unexpected }: it would close the block around this text")
        name, args, where, body = self.stack.pop()
        self.stack[-1][3].append(Read(name, args, where, tuple(body), number))

    def _take(self, number: int, line: str) -> None:
        opens = line.endswith("{")
        key, _, value = (line[:-1] if opens else line).strip(BLANK).partition(" ")
        key, _, more = key.partition("\t")
        value = f"{more} {value}".strip(BLANK) if more else value.strip(BLANK)
        if line[:7].lower() == "include":
            key, value = "include", line[7:].strip(BLANK)
        if "<<<" in value and not opens:
            value = self._until(value.split("<<<", 1)[1].strip(BLANK), number)
        args = (value,) if value else ()
        if opens:
            self.stack.append((key.lower(), args, number, []))
        else:
            self.stack[-1][3].append(Read(key.lower(), args, number, end=self.position))

    def _until(self, tag: str, number: int) -> str:
        """Return the raw lines of a multi-line value: those before the line whose first word is `tag`."""
        start = self.position
        while self.position < len(self.lines):
            words = self.lines[self.position].split()
            self.position += 1
            if words and words[0].lower() == tag.lower():
                return "\n".join(self.lines[start : self.position - 1])
        raise Unreadable(number, f"the text ends inside a multi-line value; add {tag}")


def read(text: str) -> tuple[Read, ...]:
    """Parse the directives of a file or snippet, with keys in lower case.

    Raises Unreadable for text that OpenLiteSpeed would misread.
    """
    return _Reader(text).read()
