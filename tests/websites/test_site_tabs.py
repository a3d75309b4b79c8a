"""Navigation between the pages of a site."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from panel.websites.models import Site


def labels(page: str, name: str) -> dict[str, bool]:
    """Links of the navigation with this label, and whether each is the current one."""
    found = re.search(rf'<nav class="tabs[^"]*" aria-label="{name}">(.*?)</nav>', page, re.DOTALL)
    links = re.findall(r"<a ([^>]*)>\s*([^<]*?)\s*</a>", found[1]) if found else []
    return {label: 'aria-current="page"' in attributes for attributes, label in links}


@pytest.mark.parametrize(
    ("path", "section", "page"),
    [
        ("", "Overview", ""),
        ("upstreams/", "Configuration", "Upstreams"),
        ("raw/", "Configuration", "Rendered files"),
        ("logs/", "Traffic", "Logs"),
        ("servers/", "Benchmarks", "Server comparison"),
        ("history/", "History", ""),
    ],
)
def test_site_has_six_sections_and_marks_section_and_page(
    owner: Client, shop: Site, path: str, section: str, page: str
) -> None:
    answer = owner.get(f"/sites/shop/{path}").content.decode()
    sections = labels(answer, "Site")
    assert list(sections) == ["Overview", "Configuration", "Content", "Traffic", "Benchmarks", "History"]
    assert [label for label, is_current in sections.items() if is_current] == [section]
    assert [label for label, is_current in labels(answer, section).items() if is_current] == ([page] if page else [])


def test_content_of_site_has_its_tabs(owner: Client, shop: Site) -> None:
    answer = owner.get("/content/site/shop").content.decode()
    assert labels(answer, "Site")["Content"]
    assert "<title>shop: Content" in answer
