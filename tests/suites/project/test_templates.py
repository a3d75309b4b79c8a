"""scripts/templates.py formats templates without changing what browsers show."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def templates() -> ModuleType:
    spec = importlib.util.spec_from_file_location("templates_script", ROOT / "scripts" / "templates.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "source",
    [
        "<p>{{ a }}{% if b %}, {{ b }}{% endif %}</p>\n",
        '<a href="/">one</a><a href="/">two</a>\n',
        "<td>{% if a %}{{ a }}{% endif %}</td>\n",
        "<div>{% block badges %}{% endblock %}</div>\n",
        "<pre>\n  kept\n as it is</pre>\n",
    ],
    ids=["text", "inline elements", "may be empty", "block may be empty", "preformatted"],
)
def test_template_formatter_keeps_visible_whitespace(templates: ModuleType, source: str) -> None:
    assert templates.formatted(source) == source


def test_template_formatter_puts_block_elements_on_own_lines(templates: ModuleType) -> None:
    source = "<ul>{% for a in b %}<li>{{ a }}</li>{% endfor %}</ul>"
    assert templates.formatted(source) == ("<ul>\n  {% for a in b %}\n    <li>{{ a }}</li>\n  {% endfor %}\n</ul>\n")


def test_template_formatter_puts_buttons_on_own_lines(templates: ModuleType) -> None:
    source = '<div class="form-actions"><button>Save</button><a href="/">Cancel</a></div>'
    assert templates.formatted(source) == (
        '<div class="form-actions">\n  <button>Save</button>\n  <a href="/">Cancel</a>\n</div>\n'
    )


def test_template_formatter_breaks_long_text_at_spaces(templates: ModuleType) -> None:
    lines = templates.formatted(f"<p>{'word ' * 60}</p>").splitlines()
    assert len(lines) > 2 and max(map(len, lines)) <= templates.WIDTH
    assert " ".join(" ".join(lines).split()) == f"<p>{'word ' * 60}</p>"


def test_template_formatter_is_idempotent(templates: ModuleType) -> None:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        once = templates.formatted(path.read_text(encoding="utf-8"))
        assert templates.formatted(once) == once, path
