"""Alerts and saved views over the API: objects of the caller's teams and the caller's own views only."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from django.utils import timezone

from panel.accounts.models import SavedView, User
from panel.deployments.models import DeploymentStatus, SiteState
from panel.hosts.models import Host, HostStatus
from panel.websites import services as websites
from panel.websites.models import Certificate, ServerBlock, Site
from tests.api.caller import caller_of, pointers
from tests.deployments.sample_plans import carried_out, planned, shop
from tests.support.cast import Cast, cast, signed_in


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def told(person: User) -> list[dict[str, Any]]:
    answer = caller_of(person, ["read"]).get("attention/")
    assert answer.status_code == 200
    found: list[dict[str, Any]] = json.loads(answer.content)
    return found


def expiring(people: Cast, site: Site) -> None:
    """A certificate of the site that expires soon."""
    made = websites.certificate_self_sign(
        actor=people.owner, team=people.team, name="old", names=["shop.example"], days=29
    )
    Certificate.objects.filter(pk=made.pk).update(not_before=timezone.now() - dt.timedelta(days=200))
    ServerBlock.objects.filter(site=site).update(certificate=made)


def test_attention_list_matches_dashboard(people: Cast) -> None:
    assert told(people.owner) == []
    site = shop(people)
    failing = planned(people, site)
    carried_out(failing, outcome="rolled_back", error="nginx: [emerg] no\nmore")
    assert SiteState.objects.get().last_failure == failing
    Host.objects.create(name="web-9", status=HostStatus.UNREACHABLE, status_detail="It does not answer.")
    expiring(people, site)
    lost, failed, certificate = told(people.viewer)
    assert (lost["status"], lost["kind"], lost["title"]) == ("unreachable", "host", "web-9")
    assert lost["detail"] == "It does not answer." and lost["page"] == "/hosts/web-9/"
    assert (failed["status"], failed["kind"], failed["title"]) == (DeploymentStatus.ROLLED_BACK, "site", "shop")
    assert failed["detail"] == "nginx: [emerg] no" and failed["page"] == f"/deployments/{failing.uuid}"
    assert (certificate["status"], certificate["kind"], certificate["title"]) == ("expiring", "certificate", "old")
    page = signed_in(people.viewer).get("/").content.decode()
    for item in told(people.viewer):
        assert item["page"] in page and item["label"] in page


def test_attention_list_hides_objects_of_other_teams(people: Cast) -> None:
    site = shop(people)
    carried_out(planned(people, site), outcome="rolled_back", error="no")
    expiring(people, site)
    assert told(people.outsider) == []
    assert {item["title"] for item in told(people.admin)} == {"shop", "old"}
    assert caller_of(people.owner).get("attention/?team=shop").status_code == 400


def test_saved_views_are_created_replaced_and_deleted_by_owner_only(people: Cast) -> None:
    shop(people)
    caller = caller_of(people.viewer, ["read", "sites"])
    made = caller.post("saved-views/", {"page": "sites", "name": "Shops", "query": "page=2&q=sho"})
    assert made.status_code == 201
    view = json.loads(made.content)
    assert (view["page"], view["name"], view["query"]) == ("sites", "Shops", "q=sho")
    assert made.headers["Location"] == f"/api/v1/saved-views/{view['id']}/"
    assert "Shops" in signed_in(people.viewer).get("/sites/").content.decode()
    again = caller.post("saved-views/", {"page": "sites", "name": "shops", "query": "q=other"})
    assert (again.status_code, json.loads(again.content)["id"]) == (200, view["id"])

    other = caller_of(people.admin)
    assert json.loads(other.get("saved-views/").content)["results"] == []
    assert other.get(f"saved-views/{view['id']}/").status_code == 404
    assert other.delete(f"saved-views/{view['id']}/").status_code == 404
    assert caller.delete(f"saved-views/{view['id']}/?dry_run=true").status_code == 200
    assert SavedView.objects.count() == 1
    assert caller.delete(f"saved-views/{view['id']}/").status_code == 204
    assert not SavedView.objects.exists()


def test_view_without_filter_is_rejected_at_its_field(people: Cast) -> None:
    caller = caller_of(people.viewer, ["read", "sites"])
    for body, pointer in (
        ({"page": "sites", "name": "All", "query": "page=2"}, ["/name"]),
        ({"page": "nowhere", "name": "All", "query": "q=a"}, ["/page"]),
        ({"page": "sites", "name": "", "query": "q=a"}, ["/name"]),
    ):
        answer = caller.post("saved-views/", body)
        assert answer.status_code == 422 and pointers(answer) == pointer
