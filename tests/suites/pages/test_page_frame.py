"""Rules for every page: frame, content security policy, error pages and health."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.db import OperationalError
from django.http import HttpResponse
from django.test import Client

from panel.websites.models import Site
from tests.suites.security import world
from tests.suites.security.addresses import addresses
from tests.support.cast import signed_in

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"


@pytest.mark.parametrize("url", ["/", "/sites/", "/hosts/", "/search/", "/help/"])
def test_pages_have_content_security_policy_and_no_inline_code(owner: Client, shop: Site, url: str) -> None:
    answer = owner.get(url)
    assert answer.status_code == 200
    policy = answer["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    page = answer.content.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"\son[a-z]+=", page)
    assert not re.search(r"\sstyle=|<style", page)
    assert "X-Request-Id" in answer


def test_templates_contain_nothing_that_policy_forbids() -> None:
    wrong = [
        str(path.relative_to(TEMPLATES))
        for path in TEMPLATES.rglob("*.html")
        if re.search(
            r"<script(?![^>]*\bsrc=)|\son(click|change|submit|load)=|\sstyle=|hx-on|https?://[a-z.]*cdn",
            path.read_text(),
        )
    ]
    assert not wrong


def test_page_titles_of_site_and_host_are_unique(db: None) -> None:
    """Browser tabs and history show only titles."""
    client = signed_in(world.build().admin)
    titles: dict[str, list[str]] = {}
    for address in addresses():
        if re.match(r"/(sites|hosts)/", address.path):
            answer = client.get(address.path)
            title = re.search(r"<title>(.*?)</title>", answer.content.decode()) if answer.status_code == 200 else None
            if title:
                titles.setdefault(title[1], []).append(address.path)
    assert len(titles) > 40, "most of them are pages"
    assert not {title: paths for title, paths in titles.items() if len(paths) > 1}


def test_navigation_marks_current_page(owner: Client, shop: Site) -> None:
    page = owner.get("/sites/shop/").content.decode()
    assert re.search(r'href="/sites/" aria-current="page"', page)
    assert not re.search(r'href="/hosts/" aria-current="page"', page)


def test_page_uses_theme_of_user(owner: Client, people: object) -> None:
    people.owner.theme = "dark"  # type: ignore[attr-defined]
    people.owner.save()  # type: ignore[attr-defined]
    assert 'data-theme="dark"' in owner.get("/").content.decode()


def test_not_found_page_has_page_frame(owner: Client) -> None:
    answer = owner.get("/nowhere/")
    assert answer.status_code == 404
    assert b"Not found" in answer.content
    assert answer["X-Request-Id"].encode() in answer.content


def test_forbidden_page_suggests_asking_administrator(viewer: Client) -> None:
    answer = viewer.get("/sites/+new/")
    assert answer.status_code == 403
    assert b"Ask an administrator" in answer.content


def test_expired_form_page_says_how_to_continue(people: object) -> None:
    client = Client(HTTP_HOST="localhost", enforce_csrf_checks=True)
    client.force_login(people.owner, backend="django.contrib.auth.backends.ModelBackend")  # type: ignore[attr-defined]
    answer = client.post("/sites/+bulk/", {})
    assert answer.status_code == 403
    assert b"This form has expired" in answer.content


def test_server_error_page_needs_no_database() -> None:
    from panel.core.views.pages import server_error

    answer = server_error(None)  # type: ignore[arg-type]
    assert answer.status_code == 500
    assert b"The hosts still serve your sites" in answer.content


@pytest.mark.django_db
def test_unreachable_database_page_asks_to_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    from panel.core import database
    from panel.core.views import pages

    class Away:
        def cursor(self) -> None:
            raise OperationalError("connection refused")

    def failed() -> HttpResponse:
        try:
            raise OperationalError("connection refused")
        except OperationalError:
            return pages.server_error(None)  # type: ignore[arg-type]

    assert failed().status_code == 500, "it answers: this was a fault of the panel"
    monkeypatch.setattr(database, "connection", Away())
    answer = failed()
    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert b"cannot reach its database" in answer.content and b"PADDOCK_DATABASE_URL" in answer.content
    assert Client(HTTP_HOST="localhost").get("/healthz").status_code == 503


@pytest.mark.django_db
def test_health_endpoint_needs_no_account_and_reveals_little() -> None:
    answer = Client(HTTP_HOST="localhost").get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_empty_dashboard_shows_first_steps(admin: Client) -> None:
    page = admin.get("/").content.decode()
    assert "Getting started" in page
    assert "Create your first site" in page
    assert 'href="/sites/+new/"' in page


def test_dashboard_shows_attention_list_first(admin: Client, people: object, shop: Site) -> None:
    host = people.host  # type: ignore[attr-defined]
    host.status, host.status_detail = "unreachable", "No answer within 10 s."
    host.save()
    page = admin.get("/").content.decode()
    assert page.index("No answer within 10 s.") < page.index("Hosts ready")
