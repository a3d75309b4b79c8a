from __future__ import annotations

import csv
import io

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from panel.accounts.models import Team
from panel.audit.models import AuditEntry
from panel.audit.selectors import audit_visible, changes
from panel.audit.services import audit_record
from panel.core.stream import PIECES_AT_ONCE
from panel.deployments.models import Deployment, DeploymentItem
from panel.websites.models import Site
from tests.support.cast import Cast, cast


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def site(people: Cast) -> Site:
    site = Site.objects.create(name="shop", team=people.team)
    audit_record(
        actor=people.owner,
        action="site.update",
        target=site,
        before={"enabled": True, "notes": "a", "name": "shop"},
        after={"enabled": False, "notes": "a", "name": "shop"},
    )
    audit_record(actor=people.admin, action="host.create", target=people.host, after={"name": "web-1", "password": ""})
    return site


def as_user(client: Client, person: object) -> Client:
    client.force_login(person)  # type: ignore[arg-type]
    return client


def test_audit_page_shows_all_to_administrators_and_own_teams_to_others(people: Cast, site: Site) -> None:
    def seen(person: object) -> set[str]:
        return set(audit_visible(person).values_list("action", flat=True))  # type: ignore[arg-type]

    assert seen(people.admin) == {"site.update", "host.create"}
    assert seen(people.owner) == seen(people.viewer) == {"site.update"}
    assert seen(people.outsider) == set()


def test_audit_detail_shows_only_changed_fields(client: Client, people: Cast, site: Site) -> None:
    entry = AuditEntry.objects.get(action="site.update")
    assert [(c.field, c.before, c.after) for c in changes(entry)] == [("enabled", "true", "false")]
    page = as_user(client, people.viewer).get(f"/audit/{entry.pk}/").content.decode()
    assert "enabled" in page and "notes" not in page
    made = AuditEntry.objects.get(action="host.create")
    assert [(c.field, c.before, c.after) for c in changes(made)] == [("name", None, "web-1")]


def test_audit_entry_is_hidden_from_outsiders(client: Client, people: Cast, site: Site) -> None:
    entry = AuditEntry.objects.get(action="site.update")
    assert as_user(client, people.outsider).get(f"/audit/{entry.pk}/").status_code == 404


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 2),
        ("q=shop", 1),
        ("actor=olaf", 1),
        ("action=host.create", 1),
        ("since=2999-01-01", 0),
        ("until=2999-01-01", 2),
        ("since=rubbish", 0),
        ("action=no.such", 0),
    ],
)
def test_audit_filters_never_fail_open(client: Client, people: Cast, site: Site, query: str, count: int) -> None:
    assert len(as_user(client, people.admin).get(f"/audit/?{query}").context["page"].object_list) == count


def test_audit_export_contains_filtered_rows_without_formulas(client: Client, people: Cast, site: Site) -> None:
    Site.objects.filter(pk=site.pk).update(name="evil")
    AuditEntry.objects.filter(action="site.update").update(object_label="=HYPERLINK(1)")
    answer = as_user(client, people.admin).get("/audit/export.csv?actor=olaf")
    assert answer["Content-Disposition"].startswith("attachment")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer).decode())))  # type: ignore[arg-type]
    assert [row["action"] for row in rows] == ["site.update"]
    assert rows[0]["object"] == "'=HYPERLINK(1)"


@pytest.mark.filterwarnings("error")
def test_audit_export_is_streamed(people: Cast, site: Site) -> None:
    """Over ASGI, as the panel is served: the export arrives in chunks and is never complete in memory."""
    AuditEntry.objects.bulk_create(
        AuditEntry(
            actor=people.owner, actor_label="olaf", action="site.update", object_type="site", object_label=f"{n}"
        )
        for n in range(PIECES_AT_ONCE)
    )
    client = AsyncClient()
    client.force_login(people.admin)

    async def heard() -> list[bytes]:
        answer = await client.get("/audit/export.csv?actor=olaf")
        return [part async for part in answer.streaming_content]  # type: ignore[attr-defined]

    parts = async_to_sync(heard)()
    rows = list(csv.DictReader(io.StringIO(b"".join(parts).decode())))
    assert len(rows) == PIECES_AT_ONCE + 1
    assert len(parts) == 2


def test_audit_list_query_count_does_not_grow(
    client: Client, people: Cast, site: Site, django_assert_max_num_queries: object
) -> None:
    for _ in range(120):
        audit_record(actor=people.owner, action="site.update", target=site)
    as_user(client, people.viewer)
    with django_assert_max_num_queries(25):  # type: ignore[operator]
        assert client.get("/audit/").status_code == 200


def test_entries_of_deleted_objects_stay_visible_to_their_team(people: Cast, site: Site) -> None:
    audit_record(actor=people.admin, action="site.delete", target=site, before={"name": "shop"})
    site.delete()
    for person, sees in ((people.owner, True), (people.viewer, True), (people.outsider, False)):
        assert audit_visible(person).filter(action="site.delete").exists() is sees  # type: ignore[arg-type]


def test_entries_about_sites_of_several_teams_are_for_administrators_and_their_actor(people: Cast, site: Site) -> None:
    other = Site.objects.create(name="other", team=Team.objects.create(name="Other", slug="other"))
    deployment = Deployment.objects.create(host=people.host)
    for target in (site, other):
        DeploymentItem.objects.create(deployment=deployment, site=target)
    audit_record(actor=people.owner, action="deployment.confirm", target=deployment)
    for person, sees in ((people.admin, True), (people.owner, True), (people.viewer, False), (people.outsider, False)):
        assert audit_visible(person).filter(action="deployment.confirm").exists() is sees  # type: ignore[arg-type]
    deployment.items.get(site=other).delete()
    audit_record(actor=people.admin, action="deployment.finish", target=deployment)
    assert audit_visible(people.viewer).filter(action="deployment.finish").exists()  # type: ignore[arg-type]


def test_long_audit_log_says_that_it_shows_only_part(
    client: Client, people: Cast, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(120):
        audit_record(actor=people.admin, action="site.update", target=site)
    assert "The list has more entries" not in as_user(client, people.admin).get("/audit/").content.decode()
    monkeypatch.setattr("panel.audit.views.MOST", 100)
    page = client.get("/audit/?page=99").content.decode()
    assert "51–100 of 100" in page and "The list has more entries. Use the filters to find older entries." in page


@pytest.mark.parametrize("few", [0, 1000])
def test_few_entries_have_the_pages_and_the_order_of_many(
    client: Client, people: Cast, site: Site, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """A filter that leaves few entries finds them before it sorts them."""
    monkeypatch.setattr("panel.core.pages.FEW", few)
    for number in range(120):
        audit_record(actor=people.owner, action="site.delete", target=site, after={"number": number})
    own = AuditEntry.objects.filter(action="site.delete")
    newest = list(own.order_by("-at", "-pk").values_list("pk", flat=True))
    as_user(client, people.viewer)
    for number, expected in ((1, newest[:50]), (2, newest[50:100]), (3, newest[100:])):
        page = client.get(f"/audit/?action=site.delete&actor=OLAF&page={number}")
        assert [item.entry.pk for item in page.context["told"]] == expected
    assert '<option value="site.delete" selected>' in page.content.decode()
    assert not client.get("/audit/?action=site.create").context["told"]
