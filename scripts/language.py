#!/usr/bin/env python3
"""List, draw and check the sentences of the interface and the docstrings of the code, by docs/glossary.md.

    language.py list                          every sentence, as FILE:LINE: TEXT
    language.py draw --seed 1 --count 100     sentences at random, the same for the same seed
    language.py lint                          banned words and patterns; exits with 1 if there are any

With `--docstrings`, `list` and `draw` use the docstrings of panel/ and agents/ instead. A sentence is a text that
Django translates, a text or attribute of a template, or a string literal of the panel with at least two words. Log
messages are not part of the interface.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARKERS = {"Table", "Cell", "_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "pgettext"}
LOGS = {"debug", "info", "warning", "error", "exception", "critical"}
VISIBLE = {"label", "help_text", "title", "summary", "description", "verbose_name", "verbose_name_plural"}
NOT_VISIBLE = {"compile", "match", "search", "sub", "fullmatch", "split", "AssertionError", "RunSQL", "execute"}
EXPRESSION = re.compile(r"\{\{.*?\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|`[^`]*`|<code>.*?</code>")
CODE = re.compile(
    r"^ ?<|\(\?|^attachment;|charset=|^Bearer realm|^PRAGMA|^INSERT INTO|^import |delay:|queue last"
    r"|^(?:Accept-E|Header set|Request)"
)
NAMES = re.compile(r"(?=.*_)[a-z0-9_ ]+")  # lists of field names
PROSE = re.compile(r"[A-Za-z]{2,}[,;:.’']? +[A-Za-z{(“]")


@dataclass(frozen=True)
class Sentence:
    """One text of the interface, with its place; `start` and `end` are offsets of its source in the file."""

    path: Path
    line: int
    text: str
    start: int
    end: int
    is_translated: bool

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {' '.join(self.text.split())}"


def sentences() -> Iterator[Sentence]:
    for path in sorted(path for path in (ROOT / "templates").rglob("*.*") if path.suffix in (".html", ".txt")):
        yield from of_template(path)
    for path in sorted((ROOT / "panel").rglob("*.py")):
        yield from of_python(path)


class _Strings(ast.NodeVisitor):
    """Collects the string literals of a module that may reach a page, with whether Django translates them."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.expr, bool]] = []
        self.is_translated = False

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(node.func.value, "id", "") if isinstance(node.func, ast.Attribute) else ""
        if (name in LOGS and "log" in owner.lower()) or name in NOT_VISIBLE:
            return
        before, self.is_translated = self.is_translated, name in MARKERS
        self.visit(node.func)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            self.is_translated = keyword.arg in VISIBLE
            self.visit(keyword.value)
        self.is_translated = before

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.found.append((node, self.is_translated))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.found.append((node, self.is_translated))


def text_of(node: ast.expr) -> str:
    """Return the text of a literal; of an f-string its source, with its expressions in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    parts = []
    for value in getattr(node, "values", []):
        if isinstance(value, ast.Constant):
            parts.append(str(value.value).replace("{", "{{").replace("}", "}}"))
        else:
            conversion = f"!{chr(value.conversion)}" if value.conversion != -1 else ""
            spec = f":{text_of(value.format_spec)}" if value.format_spec else ""
            parts.append(f"{{{ast.unparse(value.value)}{conversion}{spec}}}")
    return "".join(parts)


def of_python(path: Path) -> Iterator[Sentence]:
    source = path.read_text()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    raw = source.encode()
    visitor = _Strings()
    visitor.visit(ast.parse(source))
    for node, is_translated in visitor.found:
        text = text_of(node)
        words = EXPRESSION.sub("", text)
        is_prose = PROSE.search(words) and not NAMES.fullmatch(words) and not CODE.search(words)
        if not (is_prose or (is_translated and re.search("[A-Za-z]{2}", text))):
            continue
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = len(raw[: starts[node.lineno - 1] + node.col_offset].decode())
        end = len(raw[: starts[node.end_lineno - 1] + node.end_col_offset].decode())
        yield Sentence(path, node.lineno, text, start, end, is_translated)


COMMENT = re.compile(r"\{% comment %\}.*?\{% endcomment %\}|\{#.*?#\}|<!--.*?-->|<script.*?</script>", re.DOTALL)
BLOCK = re.compile(r"\{% blocktranslate\b[^%]*%\}(.*?)\{% endblocktranslate %\}", re.DOTALL)
QUOTED = re.compile(r"""\{% translate (["'])(?P<a>.*?)\1|_\((["'])(?P<b>.*?)\3\)""")
TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
ATTRIBUTE = re.compile(r'\s(?:title|aria-label|placeholder|alt)="([^"]*)"')
TEXT = re.compile(r">([^<>]+)(?=<)")


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "\x00", match.group())


def of_template(path: Path) -> Iterator[Sentence]:
    source = path.read_text()
    left = COMMENT.sub(_blank, source)
    spans = []
    for block in BLOCK.finditer(left):
        begin = block.start(1)
        for piece in block.group(1).split("{% plural %}"):
            spans.append((begin, begin + len(piece)))
            begin += len(piece) + len("{% plural %}")
    left = BLOCK.sub(_blank, left)
    spans += [m.span("a" if m.group("a") is not None else "b") for m in QUOTED.finditer(left)]
    left = TAG.sub(_blank, left)
    for found in [*TEXT.finditer(left), *ATTRIBUTE.finditer(left)]:
        for piece in re.finditer(r"[^\x00]*[A-Za-z]{2}[^\x00]*", found.group(1)):
            spans.append((found.start(1) + piece.start(), found.start(1) + piece.end()))
    for start, end in sorted(spans):
        yield Sentence(path, source.count("\n", 0, start) + 1, source[start:end], start, end, True)


@dataclass(frozen=True)
class Docstring:
    """A docstring, with its place and the name of its module, class or function."""

    path: Path
    line: int
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.name}: {' '.join(self.text.split())}"


def docstrings() -> Iterator[Docstring]:
    for folder in ("panel", "agents"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                if text := ast.get_docstring(node):
                    yield Docstring(path, node.body[0].lineno, getattr(node, "name", "module"), text)


def draw(seed: int, count: int, found: Iterable[Sentence | Docstring]) -> list[Sentence | Docstring]:
    """Draw texts at random, each once. A text that changes leaves the draw; the others stay in it."""
    once = {" ".join(s.text.split()): s for s in found if len(s.text.split()) > 1}
    chosen = sorted(once, key=lambda text: hashlib.sha256(f"{seed} {text}".encode()).digest())
    return [once[text] for text in chosen[:count]]


# Words that docs/glossary.md excludes from texts of the interface, with the words to use instead.
BANNED = {
    r"\bone a line\b|\bone on each line\b": "one per line",
    r"\b(?:had|put|puts|set|sets) back\b": "roll back, restore",
    r"\bput up\b|\b(?:taken|take|takes) off\b": "deploy, remove",
    r"\b(?:taken|take|takes) back\b": "cancel, roll back",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\berrands?\b": "job",
    r"\b(?:un)?tick(?:s|ed)?\b": "select, turn on",
    r"\btrials?\b": "server comparison",
    r"\banswer(?:s|ed|ing)?\b": "response, respond, handle",
    r"\b(?:lies|lie|stands|stand|stood)\b": "is",
    r"\b(?:says|said)\b": "name what shows or contains the text",
    r"\bforg(?:et|ets|otten)\b": "delete",
    r"\banew\b": "again",
    r"\bany more\b": "no longer",
    r"\bnot right\b": "not valid",
    r"\bunder way\b": "running, in progress",
    r"\bleads? to\b|\bled to\b": "redirect to, point to, match",
    r"\bknown to go wrong\b": "warning",
    r"\b(?:half|once) a second\b": "per second",
    r"\bsecond factor\b": "two-factor authentication",
    r"\bmachines?\b": "host",
    r"\bsnippets?\b": "raw directives",
    r"\bmade\b": "created",
    r"(?-i:\bWrite\b)": "Enter (forms), Send (API)",
    r"\bwhoever\b|\bwhom\b": "name the subject",
    r"\bwhat (?:is|was|it|they|lies|stands|became|becomes|comes)\b": "name the subject",
    r"\bthat you may see\b|\bmay not\b": "have access to, cannot",
    r"\b(?:colour|behaviour|licence|catalogue|favour|centre|analys|optimis|organis|recognis|initialis)": "US spelling",
}
CLAUSE = re.compile(r"^(?:Who|What|Where|Whoever|Whom|Whose|How)\b[^?.]*$")
# Sentences that a rule meets although a reader would not change them, each with its reason.
ALLOWED = {
    "Hosts are machines that Paddock manages over SSH. You verify the SSH key's fingerprint before Paddock signs in.": (
        "defines host"
    ),
    "A machine that Paddock manages over SSH, or this machine.": "defines host",
    "Anyone can reach other machines through this web server, including internal ones such as metadata services and "
    "admin panels that trust it.": "machines that are no hosts of the panel",
}
# Names of the code that the vocabulary replaced, with those that are used now.
RETIRED = {
    r"EngineInstall|engineinstall": "WebServer",
    r"HostOperation|hostoperation|[Ee]rrands?": "HostJob, job",
    r"Trials?|trials?": "Comparison, comparison",
    r"Concerns?": "Alert, alert",
    r"[Mm]end(?:s|ed|ing)?": "fix",
    r"resting|thawing|lineup": "disabled, definition_from_spec, availability",
    r"Stand(?:Request|Server)?|STAND": "Testbed",
}
BASE = "5e4ca550d89e"  # subjects of commits since then have at most SUBJECT characters
SUBJECT = 72


def faults_of(text: str) -> Iterator[str]:
    """Yield the rules that a sentence breaks, each with the words to use instead."""
    text = EXPRESSION.sub("…", " ".join(text.split()))
    if text in ALLOWED:
        return
    for pattern, instead in BANNED.items():
        if found := re.search(pattern, text, re.IGNORECASE):
            yield f"“{found.group()}”: {instead}"
    if CLAUSE.search(text):
        yield "a label is a noun; only questions begin like this"


# Docstrings may use these words of code and of the field; the interface has other ones for people.
IN_CODE = (
    "machines",
    "snippets",
    "made",
    "Write",
    "forg",
    "leads",
    "may not",
    "second factor",
    "tick",
    "answer",
    "trials",
)
RIDDLE = re.compile(
    r"^(?:Who|What|Where|Whoever|Whom|Whose|Whether|How|Which|When|It|That|One that|Those that|Of|As)\b(?! `)"
    r"|(?<!there )\bis no\b(?! longer)|\bone's own\b|\bnobody knows\b|\bthat very\b|\bof old\b(?! \w)"
)


def docstring_faults(text: str) -> Iterator[str]:
    """Yield the rules that a docstring breaks.

    Its first line must be an imperative or a noun phrase that stands alone.
    """
    text = re.sub(r"(?m)^ {4}.*$|\"[^\"\n]*\"|/PADDOCK-TESTBED|\bstands? (?:for|in for)\b|\banalysis\b", "…", text)
    text = EXPRESSION.sub("…", " ".join(text.split()))
    for pattern, instead in BANNED.items():
        if not any(word in pattern for word in IN_CODE) and (found := re.search(pattern, text, re.IGNORECASE)):
            yield f"“{found.group()}”: {instead}"
    if found := RIDDLE.search(text):
        yield f"“{found.group()}”: begin with an imperative or a noun phrase that stands alone"


def faults() -> Iterator[str]:
    for docstring in docstrings():
        for fault in docstring_faults(docstring.text):
            yield f"{docstring}\n    {fault}"
    for sentence in sentences():
        for fault in faults_of(sentence.text):
            yield f"{sentence}\n    {fault}"
    yield from retired_names()
    yield from long_subjects()


def retired_names() -> Iterator[str]:
    """Yield uses of names that the vocabulary replaced, as a whole name or as a part of a name between underscores."""
    for path in sorted([*(ROOT / "panel").rglob("*.py"), *(ROOT / "templates").rglob("*.html")]):
        text = path.read_text()
        for pattern, instead in RETIRED.items():
            for found in re.finditer(rf"(?<![A-Za-z])(?:{pattern})(?![a-z])", text):
                line = text.count("\n", 0, found.start()) + 1
                yield f"{path.relative_to(ROOT)}:{line}: “{found.group()}” is called {instead}"


def long_subjects() -> Iterator[str]:
    """Yield the commits since BASE whose subject is too long; nothing if the history is not available."""
    argv = ["git", "log", "--no-merges", "--format=%h %s", f"{BASE}..HEAD"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        number, _, subject = line.partition(" ")
        if len(subject) > SUBJECT:
            yield f"commit {number}: {subject}\n    {len(subject)} characters; at most {SUBJECT}"


def lint() -> int:
    found = list(faults())
    for fault in found:
        print(fault)
    if found:
        print(f"{len(found)} texts to reword; see docs/glossary.md", file=sys.stderr)
    return 1 if found else 0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list")
    drawing = commands.add_parser("draw")
    for command in (listing, drawing):
        command.add_argument("--docstrings", action="store_true")
    drawing.add_argument("--seed", type=int, required=True)
    drawing.add_argument("--count", type=int, default=100)
    commands.add_parser("lint")
    options = parser.parse_args(argv)
    if options.command == "lint":
        return lint()
    found: Iterable[Sentence | Docstring] = docstrings() if options.docstrings else sentences()
    for text in found if options.command == "list" else draw(options.seed, options.count, found):
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
