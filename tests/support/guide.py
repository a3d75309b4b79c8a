"""Configuration that the guide prints, for tests that run it as an admin would copy it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


def printed(page: str, section: str, containing: str) -> str:
    """The indented block of the section that contains the text. AssertionError if there is not exactly one."""
    text = (GUIDE / page).read_text(encoding="utf-8")
    _before, found, after = text.partition(f"\n## {section}\n")
    assert found, f"{page} has no section {section}"
    inside = after.partition("\n## ")[0]
    blocks = [block for block in re.findall(r"(?:^(?: {4}.*)?\n)+", inside, re.MULTILINE) if containing in block]
    assert len(blocks) == 1, f"{len(blocks)} blocks of {section} in {page} contain {containing!r}"
    return dedent(blocks[0]).strip() + "\n"


def replaced(text: str, values: Mapping[str, str]) -> str:
    """The text with this machine's names, ports and files. AssertionError if the text does not have one of the keys."""
    for name, value in values.items():
        assert name in text, f"the guide does not say {name!r} any more"
        text = text.replace(name, value)
    return text
