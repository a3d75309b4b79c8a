"""Saved views: a list's filter is named, found again and deleted, and is visible to its owner only."""

from __future__ import annotations

import pytest
from django.test import Client

from panel.accounts.models import SavedView, User
from panel.accounts.services.saved_views import PER_PAGE, essence
from panel.audit.models import AuditEntry
from panel.websites.models import Site
from tests.support.cast import Cast, cast


@pytest.fixture
def people(db: None) -> Cast:
    found = cast()
    for name in ("shop", "blog"):
        Site.objects.create(name=name, team=found.team)
    return found


def as_user(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def keep(client: Client, name: str, query: str, page: str = "websites:list") -> str:
    answer = client.post("/account/views/", {"page": page, "name": name, "query": query}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def test_filter_is_saved_as_view_and_listed(people: Cast) -> None:
    client = as_user(people.viewer)
    narrowed = client.get("/sites/?q=sho&page=1").content.decode()
    assert "Save as a view" in narrowed and 'value="q=sho"' in narrowed
    page = keep(client, "Shops", "q=sho&page=1&status=")
    assert '<a href="/sites/?q=sho" aria-current="true">Shops</a>' in " ".join(page.split())
    assert ">shop</a>" in page and ">blog</a>" not in page
    everything = client.get("/sites/").content.decode()
    assert '<a href="/sites/?q=sho">Shops</a>' in everything and "Save as a view" not in everything
    assert "Shops" not in client.get("/hosts/").content.decode()


def test_saved_views_are_private_to_their_owner(people: Cast) -> None:
    keep(as_user(people.owner), "Mine", "q=sho")
    view = SavedView.objects.get()
    other = as_user(people.viewer)
    assert "Mine" not in other.get("/sites/").content.decode()
    assert other.post(f"/account/views/{view.pk}/delete/").status_code == 404
    assert SavedView.objects.exists()


def test_saving_view_under_existing_name_replaces_it(people: Cast) -> None:
    client = as_user(people.owner)
    keep(client, "Shops", "q=sho")
    keep(client, "shops", "q=shop")
    assert [(row.name, row.query) for row in SavedView.objects.all()] == [("shops", "q=shop")]


def test_saved_view_can_be_deleted(people: Cast) -> None:
    client = as_user(people.owner)
    assert "Delete this view" in keep(client, "Shops", "q=sho")
    answer = client.post(f"/account/views/{SavedView.objects.get().pk}/delete/")
    assert answer["Location"] == "/sites/?q=sho"
    assert not SavedView.objects.exists()
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == ["view.save", "view.delete"]


@pytest.mark.parametrize(
    ("name", "query", "page", "words"),
    [
        ("All", "", "websites:list", "The list shows everything"),
        ("All", "page=3", "websites:list", "The list shows everything"),
        (" ", "q=sho", "websites:list", "Enter a name for the view"),
        ("x" * 41, "q=sho", "websites:list", "Use at most 40 characters; this value has 41"),
        ("Else", "q=sho", "accounts:logout", "is not available"),
    ],
)
def test_invalid_view_is_rejected_with_message(people: Cast, name: str, query: str, page: str, words: str) -> None:
    assert words in keep(as_user(people.owner), name, query, page)
    assert not SavedView.objects.exists()


def test_saved_views_per_user_are_limited(people: Cast) -> None:
    client = as_user(people.owner)
    for number in range(PER_PAGE):
        SavedView.objects.create(user=people.owner, page="websites:list", name=f"n{number}", query=f"q={number}")
    assert "views. Delete a view first." in keep(client, "One more", "q=sho")
    assert SavedView.objects.count() == PER_PAGE


def test_parameter_order_does_not_create_second_view() -> None:
    assert essence("status=live&q=a b&page=2") == essence("?q=a+b&status=live&engine=".lstrip("?"))
