"""Style sheets of the panel, for self-contained HTML files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from django.contrib.staticfiles import finders
from django.utils.safestring import SafeString, mark_safe

from panel.core.errors import ApplicationError


def inline_styles(names: Sequence[str]) -> SafeString:
    """Return the text of css/NAME.css for each name, for a <style> element."""
    texts = []
    for name in names:
        path = finders.find(f"css/{name}.css")
        if path is None:
            raise ApplicationError(f"The panel's style sheet css/{name}.css is missing. Reinstall the panel.")
        texts.append(Path(path).read_text(encoding="utf-8"))
    return mark_safe("\n".join(texts))  # noqa: S308 - the panel's own files
