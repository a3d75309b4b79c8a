"""Parse nginx's configuration grammar. Source: ngx_conf_read_token in core/ngx_conf_file.c."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from panel.rendering.readers import Read, Unreadable

BLANK = " \t\r\n"
ESCAPES = {"t": "\t", "r": "\r", "n": "\n", '"': '"', "'": "'", "\\": "\\"}


@dataclass(frozen=True)
class Token:
    text: str
    line: int
    mark: bool = False  # `;`, `{` or `}`, as opposed to a word


def read(text: str) -> tuple[Read, ...]:
    """Parse the directives of a file or snippet. Raise Unreadable for text that nginx would reject."""
    parser = _Parser(tokens(text))
    return parser.directives(depth=0)


def tokens(text: str) -> Iterator[Token]:
    position, line = 0, 1
    while position < len(text):
        character = text[position]
        if character in BLANK:
            line += character == "\n"
            position += 1
        elif character == "#":
            found = text.find("\n", position)
            position = len(text) if found < 0 else found
        elif character in ";{}":
            yield Token(character, line, mark=True)
            position += 1
        else:
            end, after = _quoted(text, position, line) if character in "\"'" else _bare(text, position, line)
            yield Token(_unescape(text[position + (character in "\"'") : end]), line)
            line += text.count("\n", position, end)
            position = after


def _quoted(text: str, start: int, line: int) -> tuple[int, int]:
    """Return the end of the quoted word's content, and the position after the quote."""
    position = start + 1
    while position < len(text) and text[position] != text[start]:
        position += 2 if text[position] == "\\" else 1
    if position >= len(text):
        raise Unreadable(line, "a quote is never closed")
    after = position + 1
    if after < len(text) and text[after] not in BLANK + ";{)":
        raise Unreadable(line, f"unexpected “{text[after]}” directly after a closing quote")
    return position, after


def _bare(text: str, start: int, line: int) -> tuple[int, int]:
    position = start
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
            continue
        if character in BLANK + ";" or (character == "{" and text[position - 1] != "$"):
            return position, position
        position += 1
    raise Unreadable(line, "the text ends inside a directive; add ;")


def _unescape(raw: str) -> str:
    found: list[str] = []
    position = 0
    while position < len(raw):
        if raw[position] == "\\" and raw[position + 1 : position + 2] in ESCAPES and position + 1 < len(raw):
            found.append(ESCAPES[raw[position + 1]])
            position += 2
        else:
            found.append(raw[position])
            position += 1
    return "".join(found)


class _Parser:
    def __init__(self, stream: Iterator[Token]) -> None:
        self.stream = stream
        self.last = 1

    def directives(self, depth: int) -> tuple[Read, ...]:
        found: list[Read] = []
        words: list[Token] = []
        for token in self.stream:
            self.last = token.line
            if not token.mark:
                words.append(token)
            elif token.text == "}":
                return self._close(found, words, token, depth)
            else:
                found.append(self._directive(words, token, depth))
                words = []
        if depth or words:
            raise Unreadable(self.last, "the text ends inside a block or directive; add } or ;")
        return tuple(found)

    def _directive(self, words: list[Token], token: Token, depth: int) -> Read:
        if not words:
            raise Unreadable(token.line, f"unexpected “{token.text}”")
        body = self.directives(depth + 1) if token.text == "{" else None
        return Read(words[0].text, tuple(word.text for word in words[1:]), words[0].line, body, self.last)

    def _close(self, found: list[Read], words: list[Token], token: Token, depth: int) -> tuple[Read, ...]:
        if words:
            raise Unreadable(words[0].line, f"the directive “{words[0].text}” has no ; at its end")
        if depth == 0:
            raise Unreadable(token.line, "unexpected “}”: it would close the block around this text")
        return tuple(found)
