"""Parse Apache httpd's configuration grammar.

Source: ap_cfg_getline, ap_getword_conf and ap_build_config in server/util.c, config.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from panel.rendering.readers import Read, Unreadable

BLANK = " \t\r\n\v\f"
MAX_LINE_BYTES = 16 * 1024 * 1024


def read(text: str) -> tuple[Read, ...]:
    """Parse the directives of a file or snippet; section names keep their case.

    Raises Unreadable for text that httpd would reject.
    """
    stack: list[tuple[str, int, tuple[str, ...], list[Read]]] = [("", 0, (), [])]
    for number, end, line in lines(text):
        if line.startswith("</"):
            _close(stack, line, end)
        elif line.startswith("<"):
            if not line.rstrip(BLANK).endswith(">"):
                raise Unreadable(number, f"“{line}” is not closed by >")
            name, *args = words(line[1 : line.rindex(">")], number)
            stack.append((name, number, tuple(args), []))
        else:
            name, *args = words(line, number)
            stack[-1][3].append(Read(name, tuple(args), number, end=end))
    if len(stack) > 1:
        raise Unreadable(stack[-1][1], f"<{stack[-1][0]}> is never closed; add </{stack[-1][0]}>")
    return tuple(stack[0][3])


def _close(stack: list[tuple[str, int, tuple[str, ...], list[Read]]], line: str, number: int) -> None:
    closing = line[2:].rstrip(BLANK)
    if not closing.endswith(">"):
        raise Unreadable(number, f"“{line}” is not closed by >")
    name = closing[:-1].strip(BLANK)
    opened, where, args, body = stack[-1]
    if not opened:
        raise Unreadable(number, f"unexpected </{name}>: it would close the section around this text")
    if opened.lower() != name.lower():
        raise Unreadable(number, f"</{name}> was found, but </{opened}> for line {where} is expected")
    stack.pop()
    stack[-1][3].append(Read(opened, args, where, tuple(body), number))


def lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield logical lines without comments and empty lines, as (first line number, last line number, text).

    A final backslash joins the next line.
    """
    pending, first, joins = "", 0, False
    for number, line in enumerate(text.split("\n"), 1):
        first = first if joins else number
        if line.endswith("\\"):
            pending, joins = pending + line[:-1], True
            continue
        whole = (pending + line).strip(BLANK)
        if whole and not whole.startswith("#"):
            yield first, number, whole
        pending, joins = "", False
    if joins:
        raise Unreadable(first, "the text ends in a backslash, which would join the next line; remove it")


def words(line: str, number: int) -> list[str]:
    """Return the unquoted words of a logical line."""
    found: list[str] = []
    position = 0
    while position < len(line):
        if line[position] in BLANK:
            position += 1
            continue
        quote = line[position] if line[position] in "\"'" and found else ""
        start = position + len(quote)
        raw = bool(found) and found[0].lower() in ("rewritecond", "rewriterule")  # mod_rewrite splits its own lines
        end = _end(line, start, quote, raw)
        found.append(line[start:end] if raw else _unescape(line[start:end], quote))
        position = end + len(quote)
    if not found:
        raise Unreadable(number, "a section has no name; enter a section such as <Directory /srv/www>")
    return found


def _end(line: str, start: int, quote: str, raw: bool) -> int:
    """Return the position after the last character of a word. Without a closing quote, httpd takes the rest of the
    line.
    """
    position = start
    while position < len(line) and (line[position] != quote if quote else line[position] not in BLANK):
        following = line[position + 1 : position + 2]
        escapes = following.isspace() if raw else bool(quote) and following in ("\\", quote)
        position += 2 if line[position] == "\\" and following and escapes else 1
    return min(position, len(line))


def _unescape(raw: str, quote: str) -> str:
    found: list[str] = []
    position = 0
    while position < len(raw):
        following = raw[position + 1 : position + 2]
        if raw[position] == "\\" and following and (following == "\\" or following == quote):
            position += 1
        found.append(raw[position])
        position += 1
    return "".join(found)
