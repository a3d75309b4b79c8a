"""scripts/language.py finds the sentences of the interface and the words that the glossary bans."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def language() -> ModuleType:
    spec = importlib.util.spec_from_file_location("language", ROOT / "scripts" / "language.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_template_texts_and_attributes_are_extracted(language: ModuleType, tmp_path: Path) -> None:
    page = write(
        tmp_path / "a.html",
        '{% comment %}not shown{% endcomment %}<p title="A title">{% translate "One text" %} two {{ three }}</p>'
        "{% blocktranslate count n=n %}{{ n }} file{% plural %}{{ n }} files{% endblocktranslate %}"
        '{% card title=_("A card") %}<script>var unseen;</script>',
    )
    found = [sentence.text.strip() for sentence in language.of_template(page)]
    assert sorted(found) == ["A card", "A title", "One text", "two", "{{ n }} file", "{{ n }} files"]


def test_module_literals_are_extracted_without_docstrings_and_logs(language: ModuleType, tmp_path: Path) -> None:
    module = write(
        tmp_path / "a.py",
        '"""A docstring here."""\n'
        'LABEL = _("Name")\n'
        'KEY = "not_shown"\n'
        'logger.info("a log line here")\n'
        'raise Error(f"{name} is not valid. " "Choose another.")\n',
    )
    assert [sentence.text for sentence in language.of_python(module)] == [
        "Name",
        "{name} is not valid. Choose another.",
    ]


@pytest.mark.parametrize(
    ("text", "is_fault"),
    [
        ("One a line.", True),
        ("The old state was put back.", True),
        ("Who may come in", True),
        ("Which web server serves this site?", False),
        ("One per line, for example /srv/www.", False),
        ("The value of {answer} is empty.", False),
    ],
)
def test_banned_words_are_found_in_text_only(language: ModuleType, text: str, is_fault: bool) -> None:
    assert bool(list(language.faults_of(text))) is is_fault


def test_draw_is_reproducible_by_seed(language: ModuleType) -> None:
    found = list(language.sentences())
    assert language.draw(1, 20, found) == language.draw(1, 20, found)
    assert language.draw(1, 20, found) != language.draw(2, 20, found)


def test_interface_has_no_banned_words(language: ModuleType) -> None:
    found = [f"{s}: {fault}" for s in language.sentences() for fault in language.faults_of(s.text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "is_fault"),
    [
        ("Whether the site is live.", True),
        ("What the server says.", True),
        ("It waits in the queue.", True),
        ("The fault is no one's.", True),
        ("The old state is put back.", True),
        ("Return whether the site is live.", False),
        ('Files of disabled sites. `testbeds` is a name, {"testbed"} a key.', False),
        ("Return the digest, which is no longer valid after a reload.", False),
    ],
)
def test_docstring_begins_with_imperative_or_noun(language: ModuleType, text: str, is_fault: bool) -> None:
    assert bool(list(language.docstring_faults(text))) is is_fault


def test_docstrings_follow_the_rules(language: ModuleType) -> None:
    found = [f"{d}: {fault}" for d in language.docstrings() for fault in language.docstring_faults(d.text)]
    assert not found, "\n".join(found)
