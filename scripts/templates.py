#!/usr/bin/env python3
"""Format the HTML templates: one block-level element per line, indented, at most 120 columns where HTML allows it.

    templates.py            list the templates that are not formatted; exits with 1 if there are any
    templates.py --write    format them

Only whitespace that browsers ignore is changed: a line ends where there is whitespace already, next to a block-level
element, between attributes, or before the `>` of a tag. Long texts of `blocktranslate` become `trimmed`, which joins
their lines again. An element that may be empty (`:empty` in the style sheets) gets no whitespace inside. djLint is not
used, because it also breaks lines between inline elements, where they become visible spaces.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "templates"
WIDTH = 120
# Whitespace is significant in these: they have preformatted text, or must be empty if there is nothing to show.
LEFT_OUT = {
    "diff.html",
    "log.html",
    "output.html",
    "field_error.html",
    "messages.html",
    "mail.html",
    "500.html",
    "base.html",
}

STRUCTURE = set(
    re.findall(r"\w+", "table thead tbody tfoot tr ul ol dl form section nav article aside main header footer")
)
BLOCKS = STRUCTURE | set(
    re.findall(r"\w+", "div p li dl dt dd td th caption fieldset legend h1 h2 h3 h4 details summary figure hr")
)
# Elements that lay out their children (display: flex or grid), so that whitespace between these is dropped.
LAYS_OUT = re.compile(
    r'class="[^"]*\b(?:row|form-actions|form-bar|toolbar(?:-filter)?|choices|pagination|actions-list)\b'
)
EMPTY = {"input", "img", "br", "wbr", "hr", "link", "meta"}
CONTROL = {"if", "for", "with", "block"}
BETWEEN = {"elif", "else", "empty"}
BOXES = {"card", "live"}  # Paddock's tags that render a block-level element around their content
WHOLE = {"pagination", "field", "sort_header", "diff", "saved_views"}  # tags that render a whole block-level element
WHOLE_FILES = re.compile(r"components/(?:empty|toolbar|form_errors|confirm|logs|traffic_parts|tabs)\.html")
SILENT = re.compile(r"\{% (?:url\b.* as \w+|csrf_token|load .*|blocktranslate asvar .*) ?%\}", re.DOTALL)

_VALUE = r"\"(?:\{%.*?%\}|\{\{.*?\}\}|[^\"])*\"|'(?:\{%.*?%\}|\{\{.*?\}\}|[^'])*'"
_TOKEN = re.compile(
    r"\{% comment %\}.*?\{% endcomment %\}|\{% blocktranslate\b.*?\{% endblocktranslate %\}"
    r"|<(?P<raw>pre|script|style|textarea|option|svg)\b.*?</(?P=raw)>|\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|<!--.*?-->"
    rf"|</?[!a-zA-Z](?:\{{%.*?%\}}|\{{\{{.*?\}}\}}|{_VALUE}|[^>'\"])*>|\s+|[^\s<{{]+|.",
    re.DOTALL,
)
_ATTRIBUTES = re.compile(rf"(?:\{{%.*?%\}}|\{{\{{.*?\}}\}}|{_VALUE}|[^\s'\"{{]|\{{)+", re.DOTALL)


@dataclass(frozen=True)
class Token:
    """A part of a template. `kind` tells how it affects line breaks: open or close (of a block-level element), start,
    middle or end (of a control tag), inline, space, and others."""

    text: str
    kind: str
    name: str = ""


def tokens(source: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(source):
        text = match.group()
        if text.isspace():
            yield Token("\n" if "\n" in text else " ", "space")
        elif match.group("raw"):
            yield Token(text, "raw")
        elif not (tag := re.match(r"<(/?)([a-z0-9]+)|\{% *(end)?([a-z]+)", text)):
            yield Token(text, "inline")
        elif tag.group(2):
            name, is_block = tag.group(2), tag.group(2) in BLOCKS and 'class="inline"' not in text
            text = " ".join(_ATTRIBUTES.findall(text)) if not tag.group(1) else "".join(text.split())
            text = text.removesuffix(" >") + ">" if text.endswith(" >") else text
            yield Token(text, ("close" if tag.group(1) else "open") if is_block and name != "hr" else "inline", name)
        else:
            yield control(text, tag.group(4), is_end=bool(tag.group(3)))


def control(text: str, name: str, *, is_end: bool) -> Token:
    if SILENT.fullmatch(text) or text.startswith("{% blocktranslate asvar"):
        return Token(text, "silent")
    if text.startswith("{% blocktranslate trimmed"):
        return Token(" ".join(text.split()).replace(" %} ", " %}").replace(" {%", "{%"), "inline")
    if text.startswith(("{% blocktranslate", "{% comment")):
        return Token(text, "inline")
    if name in WHOLE or (name == "include" and WHOLE_FILES.search(text)):
        return Token(text, "whole")
    if name in BOXES:
        return Token(text, "close" if is_end else "open", "section")
    if name in CONTROL:
        return Token(text, "end" if is_end else "start", name)
    return Token(text, "middle" if name in BETWEEN else "inline", name)


def may_break(before: Token, after: Token) -> bool:
    """Return whether a line may end between two adjacent tokens: only where browsers drop the whitespace."""
    inside = {"start", "middle", "end", "silent"}
    if before.kind == "open" and after.kind == "close":
        return False
    if after.kind in {"open", "whole", "first"}:
        return before.kind in {"open", "close", "whole", "last", *inside}
    if before.kind in {"close", "whole", "last"}:
        return after.kind in {"close", *inside}
    if before.kind == "open":
        return before.name in STRUCTURE and after.kind in inside
    return after.kind == "close" and after.name in STRUCTURE and before.kind in inside


def laid_out(found: Iterator[Token]) -> Iterator[Token]:
    """Mark the first and last token of inline children of elements that lay out their children (LAYS_OUT)."""
    flexes, depth = [False], 0
    for token in found:
        is_child = flexes[-1] and not depth
        if token.kind in {"open", "start"} and (token.kind == "open" or token.text == "{% block actions %}"):
            flexes.append(bool(LAYS_OUT.search(token.text)) or token.kind == "start")
        elif (token.kind == "close" or token.text == "{% endblock %}") and len(flexes) > 1:
            flexes.pop()
        elif token.kind == "inline" and is_child and (token.name in EMPTY or "post_button.html" in token.text):
            token = Token(token.text, "whole", token.name)
        elif token.kind == "inline" and token.text.startswith("<") and token.name and token.name not in EMPTY:
            is_end = token.text.startswith("</")
            depth += -1 if is_end else 1
            if flexes[-1] and depth == (0 if is_end else 1):
                token = Token(token.text, "last" if is_end else "first", token.name)
        yield token


def lines_of(source: str) -> Iterator[list[Token]]:
    """Yield the lines of a template: they end where the source's lines end, and at block-level elements."""
    line: list[Token] = []
    for token in laid_out(tokens(source)):
        if token.text == "\n" or (line and token.kind != "space" and may_break(line[-1], token)):
            yield line
            line = []
        is_gap = token.kind == "space"
        if is_gap and (not line or token.text == "\n"):
            continue
        if line and line[-1].kind == "space" and len(line) > 1 and may_break(line[-2], token):
            yield line[:-1]
            line = []
        line.append(token)
    yield line


class Depth:
    """Number of open block-level elements and control tags; all branches of one `if` start at the same depth."""

    def __init__(self) -> None:
        self.now = 0
        self.starts: list[int] = []

    def take(self, token: Token) -> None:
        if token.kind == "open":
            self.now += 1
        elif token.kind == "close":
            self.now -= 1
        elif token.kind == "start":
            self.starts.append(self.now)
            self.now += 1
        elif token.kind == "middle" and self.starts:
            self.now = self.starts[-1] + 1
        elif token.kind == "end" and self.starts:
            start = self.starts.pop()
            self.now = start + (self.now - start - 1)


def formatted(source: str) -> str:
    """Format a template repeatedly until nothing changes, because new lines are indented only in the next pass."""
    for _ in range(6):
        before, source = source, once(source)
        if source == before:
            break
    return source


def once(source: str) -> str:
    depth, found = Depth(), []
    for line in lines_of(source):
        while line and line[-1].kind == "space":
            line.pop()
        found += wrapped(line, depth) if line else [""]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(found)).strip("\n")
    return text + "\n"


def wrapped(line: list[Token], depth: Depth) -> list[str]:
    """Break a line at spaces and between the attributes of long tags until it fits; a title stays in one line."""
    found, current = [], indent_of(line, depth)
    for index, token in enumerate(line):
        rest = line[index + 1 :]
        is_full = len(current) + 1 + width_of(rest) > WIDTH and not line[0].text.startswith("{% block title")
        if token.kind == "space" and is_full and current.strip():
            found.append(current)
            current = indent_of(rest, depth)
            continue
        for number, part in enumerate(parts_of(token)):
            if number and len(current) + 1 + len(part) > WIDTH:
                found.append(current)
                current = "  " * (depth.now + 2) + part
            else:
                current += " " * bool(number) + part
        depth.take(token)
    return [part for each in [*found, current] for part in fitted(each)]


_PIECE = re.compile(
    r"(?P<block>\{% blocktranslate\b(?P<head>[^%]*)%\}(?P<body>.*?)\{% endblocktranslate %\})"
    r"|\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|(?P<close></[a-z0-9]+>)|(?P<space> +)"
    rf"|(?P<tag><[a-zA-Z](?:\{{%.*?%\}}|\{{\{{.*?\}}\}}|{_VALUE}|[^>'\"])*>)|[^ <{{]+|."
)


def pieces_of(line: str) -> Iterator[tuple[str, str]]:
    """Yield (break, text) for the parts of a line; `break` is " " or ">" if a line may start before the text."""
    gap = ""
    for match in _PIECE.finditer(line):
        text = match.group()
        if match.group("space"):
            gap = " "
        elif match.group("block") and "asvar" not in match.group("head"):
            words = match.group("body").replace("{% plural %}", " {% plural %} ").split()
            head = match.group("head").strip()
            head = head if head.startswith("trimmed") else f"trimmed {head}".strip()
            yield gap, f"{{% blocktranslate {head} %}}"
            for number, word in enumerate(spaced(words)):
                yield (" " if number else "_"), word
            yield "_", "{% endblocktranslate %}"
            gap = ""
        elif match.group("tag"):
            attributes = _ATTRIBUTES.findall(text.rstrip(">").rstrip())
            yield gap, attributes[0]
            yield from ((" ", attribute) for attribute in attributes[1:])
            yield ">", ">"
            gap = ""
        elif match.group("close"):
            yield gap, text[:-1]
            yield ">", ">"
            gap = ""
        else:
            yield gap, text
            gap = ""


_CONTROL = re.compile(r"\{% *(end)?(if|for|with|elif|else|empty)\b")


def with_soft_breaks(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Replace the break by "~" where a line may start because browsers drop the whitespace: next to other whitespace,
    at the start and end of block-level elements, and within control tags that start or end there."""
    texts = [text for _, text in pieces]
    gaps = [gap for gap, _ in pieces]
    before = whitespace(texts, gaps, is_block_start)
    after = whitespace(texts[::-1], [*gaps[1:], ""][::-1], is_block_end)[::-1]
    found = [pieces[0]]
    for number in range(1, len(pieces)):
        is_soft = gaps[number] in ("", "_") and (before[number] or after[number - 1])
        found.append(("~" if is_soft else gaps[number], texts[number]))
    return found


def whitespace(texts: list[str], gaps: list[str], is_border: Callable[[list[str], int], bool]) -> list[bool]:
    """Return for each piece whether whitespace is right before it, through control tags and tags without output."""
    found: list[bool] = []
    outer: list[bool] = []
    now = not texts[0].startswith("{% block")
    for number, text in enumerate(texts):
        now = now or gaps[number] == " "
        found.append(now)
        if control := _CONTROL.match(text):
            kind = "middle" if control.group(2) in BETWEEN else "in" if not control.group(1) else "out"
            if texts[0] is not text and is_border is is_block_end:
                kind = {"in": "out", "out": "in"}.get(kind, kind)
            now = now and control.group(2) not in ("for", "empty")  # the end of a loop's body meets its beginning
            if kind == "in":
                outer.append(now)
            elif outer:
                now = outer[-1] if kind == "middle" else bool(outer.pop()) and False
            else:
                now = False
        elif not SILENT.fullmatch(text):
            now = is_border(texts, number)
    return found


def is_block_start(texts: list[str], number: int) -> bool:
    """Return whether the piece ends the start tag of a block-level element, except of cells that may be empty."""
    opens = next((text for text in reversed(texts[:number]) if text.startswith("<")), "")
    return texts[number] == ">" and drops_whitespace(opens[1:], texts)


def is_block_end(texts: list[str], number: int) -> bool:
    """Return whether the piece starts the end tag of a block-level element (`texts` are in reverse order)."""
    return texts[number].startswith("</") and drops_whitespace(texts[number][2:], texts)


def drops_whitespace(name: str, texts: list[str]) -> bool:
    may_be_empty = name in ("td", "th") and "{% else %}" not in texts
    return (name in BLOCKS or name == "button") and not may_be_empty


def spaced(words: list[str]) -> Iterator[str]:
    """Yield the words of a text; a variable or tag with spaces is one word."""
    held = ""
    for word in words:
        held = f"{held} {word}" if held else word
        if held.count("{{") == held.count("}}") and held.count("{%") == held.count("%}"):
            yield held
            held = ""
    if held:
        yield held


_PLAIN_PRE = re.compile(r"<pre\b[^<>]*>(<code>)?\{\{[^{}]*\}\}(</code>)?</pre>")
_LONG = re.compile(r"(?<![=\"'])\{% translate \"([^\"{}]{56,})\" %\}(?![\"'])")


def fitted(line: str, *, is_soft: bool = True) -> list[str]:
    """Break a line into parts of at most WIDTH columns, where this does not change the page."""
    is_verbatim = ("<pre" in line and not _PLAIN_PRE.search(line)) or "<textarea" in line or "<script>" in line
    if "\n" in line:
        first, *inner, last = line.split("\n")
        return [*fitted(first, is_soft=is_soft), *inner, *fitted(last, is_soft=is_soft)]
    if len(line) <= WIDTH or is_verbatim:
        return [line]
    line = _LONG.sub(r"{% blocktranslate trimmed %}\1{% endblocktranslate %}", line)
    indent = " " * (len(line) - len(line.lstrip()))
    found, current = [], indent
    pieces = list(pieces_of(line[len(indent) :]))
    pieces = with_soft_breaks(pieces) if is_soft else pieces
    for number, (gap, text) in enumerate(pieces):
        ahead = len(text)
        for after, more in pieces[number + 1 :]:
            if after in (" ", "_", "~") or (after == ">" and ahead > 40):
                break
            ahead += len(more)
        joined = current + (" " if gap == " " and current.strip() else "") + text
        size = len(current) + (gap == " ") + ahead
        if gap and size > WIDTH and current.strip():
            found.append(current)
            current = f"{indent}    {text}"
        else:
            current = joined
    return [*found, current]


def indent_of(line: list[Token], depth: Depth) -> str:
    """Return the indent of a line that starts with these tokens; closing tokens are indented like the opening ones."""
    ahead = Depth()
    ahead.now, ahead.starts = depth.now, list(depth.starts)
    indent = ahead.now
    for token in line:
        if token.kind not in {"close", "end", "middle"}:
            break
        ahead.take(token)
        indent = ahead.now - (token.kind == "middle")
    return "  " * max(indent, 0)


def width_of(line: list[Token]) -> int:
    """Return the width up to the next place where a line may end; of a long tag, the width of its first attributes."""
    width = 0
    for token in line:
        if token.kind == "space":
            break
        parts = parts_of(token)
        width += len(parts[0])
        if len(parts) > 1:
            break
    return width


def parts_of(token: Token) -> list[str]:
    """Return the parts between which a token may be broken: attributes of a long tag, otherwise the whole token."""
    attributes = _ATTRIBUTES.findall(token.text) if re.match("<[a-z]", token.text) and token.kind != "raw" else []
    if len(token.text) < 90 or len(attributes) < 3:
        return [token.text]
    return [" ".join(attributes[:2]), *attributes[2:]]


def main(argv: list[str]) -> int:
    wrong = []  # not formatted, or with lines that only a person can shorten
    for path in sorted(FOLDER.rglob("*.html")):
        source = path.read_text(encoding="utf-8")
        is_short = all(len(line) <= WIDTH for line in source.splitlines())
        if is_short and (path.name in LEFT_OUT or formatted(source) == source):
            continue
        wrong.append(path)
        if "--write" in argv and path.name not in LEFT_OUT:
            path.write_text(formatted(source), encoding="utf-8")
        else:
            print(path.relative_to(FOLDER.parent))
    if wrong and "--write" not in argv:
        print(f"{len(wrong)} templates are not formatted; run scripts/templates.py --write", file=sys.stderr)
    return 1 if wrong and "--write" not in argv else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
