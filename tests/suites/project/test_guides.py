"""Guides and README name existing things: words on pages, settings, commands, make targets and files."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import get_commands

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


def shown() -> str:
    """Every text that a page may show, with single spaces, since a template may break a text into lines."""
    files = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "panel").rglob("*.py")]
    return " ".join(word for path in files for word in path.read_text(encoding="utf-8").split())


def emphasised(path: Path) -> Iterator[str]:
    """Names of pages, buttons and fields stand between single asterisks; *A, B* and *A → B* are two of them."""
    text = re.sub(r"```.*?```|`[^`]*`|\*\*.*?\*\*", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for found in re.findall(r"(?<![\w*])\*\[?([A-Z][^*\]]{1,60}?)\]?(?:\([^)]*\))?\*(?!\*)", text):
        for part in re.split(r" → |, (?=[A-Z])", " ".join(found.split())):
            yield part.rstrip(" …")


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_words_named_by_guides_exist_on_pages(path: Path) -> None:
    pages = shown()
    missing = [word for word in emphasised(path) if word.lower() not in pages.lower()]
    assert not missing, f"{path.name} names what no page shows: {missing}"


def test_guides_name_some_page_words() -> None:
    assert sum(len(list(emphasised(path))) for path in GUIDES) > 25


def test_documented_settings_match_code() -> None:
    sources = [ROOT / "panel" / "settings.py", ROOT / "panel" / "env.py"]
    read = {name for path in sources for name in re.findall(r'"(PADDOCK_[A-Z_]+)"', path.read_text(encoding="utf-8"))}
    table = (ROOT / "docs" / "guide" / "production.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(PADDOCK_[A-Z_]+)`", table, re.MULTILINE))
    assert read == documented


def test_guide_links_point_to_existing_files() -> None:
    wrong = []
    for path in PAGES:
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if "://" not in target and not (path.parent / target).exists():
                wrong.append(f"{path.relative_to(ROOT)}: {target}")
    assert not wrong, "\n".join(wrong)


def test_commands_and_make_targets_in_guides_exist() -> None:
    commands, wrong = get_commands(), []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z.$()A-Z/-]+):", makefile, re.MULTILINE))
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        named = [name for name in re.findall(r"manage\.py ([a-z_]+)", text) if name not in commands]
        named += [name for name in re.findall(r"(?:^    |`)make ([a-z]+)", text, re.MULTILINE) if name not in targets]
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in named]
        scripts = re.findall(r"(?:^    |`)(scripts/[\w.-]+)", text, re.MULTILINE)
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in scripts if not (ROOT / name).exists()]
    assert not wrong, "\n".join(wrong)


def exists(dotted: str) -> bool:
    """Return whether a module, or an object in one, has this name."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_architecture_names_existing_objects() -> None:
    apps = {path.name for path in (ROOT / "panel").iterdir() if path.is_dir()}
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)", text))
    dotted = {name for name in named if name.split(".")[0] in apps | {"agents"} and not name.endswith((".py", ".md"))}
    assert len(dotted) > 40
    full = {name: name if name.startswith("agents.") else f"panel.{name}" for name in dotted}
    assert not [name for name in sorted(dotted) if not exists(full[name])]


def test_documents_name_existing_source_files() -> None:
    parts = ("agents", "migrations", "native", "panel", "packaging", "scripts", "templates", "tests", "docker")
    files = [path for part in parts for path in (ROOT / part).rglob("*") if "target" not in path.parts]
    known = {f"/{path.relative_to(ROOT)}" for path in files if path.suffix in (".py", ".rs", ".sh", ".html")}
    wrong = []
    for page in [ROOT / "ARCHITECTURE.md", ROOT / "SECURITY.md", *PAGES]:
        for named in re.findall(r"(?<![\w/.:-])[\w-]+(?:/[\w.-]+)*/[\w-]+\.(?:py|rs|sh)\b", page.read_text("utf-8")):
            if "NAME" not in named and not any(path.endswith(f"/{named}") for path in known):
                wrong.append(f"{page.relative_to(ROOT)}: {named}")
    assert not wrong
