"""A URL reaches its page with and without a trailing slash."""

from __future__ import annotations

from django.test import Client
from django.urls import reverse

from tests.suites.security.addresses import API, addresses
from tests.support.cast import Cast, signed_in


def turned(path: str) -> str:
    return path.rstrip("/") if path.endswith("/") else f"{path}/"


def test_every_page_redirects_from_other_slash_form() -> None:
    client, wrong = Client(), []
    pages = [address.path for address in addresses() if address.path != "/" and not address.path.startswith(API)]
    assert len(pages) > 80
    for path in pages:
        answer = client.get(turned(path), {"q": "a b"})
        if (answer.status_code, answer.headers.get("Location")) != (301, f"{path}?q=a+b"):
            wrong.append(f"{turned(path)}: {answer.status_code} {answer.headers.get('Location')}")
    assert not wrong, "\n".join(wrong)


def test_suites_page_redirects_from_trailing_slash(people: Cast) -> None:
    answer = signed_in(people.viewer).get(f"{reverse('benchmarks:suites')}/", follow=True)
    assert answer.redirect_chain == [("/benchmarks/suites", 301)] and answer.status_code == 200


def test_post_to_other_slash_form_keeps_body(people: Cast) -> None:
    client = signed_in(people.owner)
    assert client.post("/deployments/plan/", {"site": "shop"}).status_code == 404
    assert client.post("/sites/+new").status_code == 404


def test_slash_redirect_skips_foreign_hosts_and_missing_pages(people: Cast) -> None:
    client = signed_in(people.viewer)
    foreign = ("//evil.example", "//evil.example/", "//benchmarks/suites/")
    for path in (*foreign, "/not-there", "/not-there/", "/benchmarks/suites//x", "/sites/no-such-site/"):
        assert client.get("/", PATH_INFO=path).status_code == 404, path


def test_api_url_without_trailing_slash_returns_404_problem(people: Cast) -> None:
    answer = signed_in(people.viewer).get("/api/v1/sites")
    assert answer.status_code == 404 and answer.headers["Content-Type"].startswith("application/problem+json")
