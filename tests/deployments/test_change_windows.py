"""Change windows and freezes: when hosts may be changed, and who may go on despite them."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from panel.core.errors import Conflict
from panel.deployments.models import ChangeWindow, Deployment, DeploymentStatus
from panel.deployments.planning.services import deployment_confirm, deployment_plan
from panel.deployments.windows.selectors import closed_hosts
from panel.deployments.windows.services import change_window_delete, change_window_set
from panel.deployments.windows.times import Freeze, Weekly, is_open, next_open
from panel.hosts.services import hosts_tag
from panel.websites.services import site_create
from tests.api.caller import caller_of
from tests.support.cast import Cast, signed_in

VIENNA = ZoneInfo("Europe/Vienna")
NIGHT = Weekly((5,), dt.time(22), dt.time(2), "Europe/Vienna")  # Saturday night
SOONER, LATER = (dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2))
MOMENTS = st.datetimes(dt.datetime(2025, 1, 1), dt.datetime(2030, 1, 1), timezones=st.just(dt.UTC))


def vienna(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=VIENNA)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (vienna(2026, 11, 28, 21, 59), False),
        (vienna(2026, 11, 28, 22, 0), True),
        (vienna(2026, 11, 29, 1, 59), True),  # after midnight, the window of the day before
        (vienna(2026, 11, 29, 2, 0), False),
        (vienna(2026, 11, 29, 22, 30), False),
    ],
)
def test_weekly_window_covers_its_hours_past_midnight(at: dt.datetime, expected: bool) -> None:
    assert is_open([NIGHT], at) is expected


def test_weekly_window_follows_daylight_saving_time() -> None:
    assert next_open([NIGHT], vienna(2026, 3, 27, 12)) == dt.datetime(2026, 3, 28, 21, tzinfo=dt.UTC)  # 22:00 CET
    assert next_open([NIGHT], vienna(2026, 4, 3, 12)) == dt.datetime(2026, 4, 4, 20, tzinfo=dt.UTC)  # 22:00 CEST


def test_freeze_closes_a_window_and_ends_at_its_end() -> None:
    freeze = Freeze(vienna(2026, 11, 27), vienna(2026, 12, 1))
    assert next_open([freeze], vienna(2026, 11, 28)) == vienna(2026, 12, 1)
    assert next_open([freeze, NIGHT], vienna(2026, 11, 28)) == vienna(2026, 12, 5, 22)
    for_ever = Freeze(vienna(2026, 1, 1), vienna(2036, 1, 1))
    assert next_open([for_ever, NIGHT], vienna(2026, 11, 28)) is None


@given(
    MOMENTS, st.lists(st.integers(0, 6), min_size=1, unique=True), st.times(), st.times(), st.integers(0, 100), MOMENTS
)
def test_next_moment_is_open_and_none_before_it_is(
    at: dt.datetime, days: list[int], opens: dt.time, closes: dt.time, hours: int, begins: dt.datetime
) -> None:
    times = [
        Weekly(tuple(days), opens.replace(microsecond=0), closes.replace(microsecond=0), "America/New_York"),
        Freeze(begins, begins + dt.timedelta(hours=hours)),
    ]
    found = next_open(times, at)
    if found is None:
        assert opens.replace(microsecond=0) == closes.replace(microsecond=0)
        return
    assert found >= at and is_open(times, found)
    step = (found - at) / 7
    assert not any(is_open(times, at + number * step) for number in range(7)) or found == at


@pytest.fixture
def plan(people: Cast) -> Deployment:
    values = {"team": people.team, "name": "shop", "domains": ["shop.example"], "root": "/srv/www/shop"}
    site = site_create(actor=people.owner, web_server=people.nginx, **values)
    return deployment_plan(actor=people.owner, sites=[site])[0]


def frozen(people: Cast, **values: object) -> ChangeWindow:
    now = timezone.now()
    given = {"name": "Sale", "kind": "freeze", "begins_at": now, "ends_at": now + dt.timedelta(hours=1)} | values
    return change_window_set(actor=people.admin, **given)


def test_plan_is_refused_in_a_freeze_until_it_is_deleted(people: Cast, plan: Deployment) -> None:
    window = frozen(people)
    with pytest.raises(Conflict, match=r"web-1 cannot be changed before .* “Sale”"):
        deployment_confirm(actor=people.owner, deployment=plan)
    plan.refresh_from_db()
    assert (plan.status, plan.confirmed_at) == (DeploymentStatus.PLANNED, None)
    with pytest.raises(PermissionDenied):
        deployment_confirm(actor=people.owner, deployment=plan, despite_windows=True)
    change_window_delete(actor=people.admin, window=window)
    deployment_confirm(actor=people.owner, deployment=plan)


def test_administrator_deploys_despite_a_freeze(people: Cast, plan: Deployment) -> None:
    frozen(people)
    deployment_confirm(actor=people.admin, deployment=plan, despite_windows=True)
    plan.refresh_from_db()
    assert plan.status == DeploymentStatus.QUEUED


def test_window_applies_to_hosts_with_all_of_its_tags(people: Cast, plan: Deployment) -> None:
    frozen(people, tags=["prod", "eu"])
    hosts_tag(actor=people.admin, hosts=[people.host], add=["prod"])
    people.host.refresh_from_db()
    assert closed_hosts([people.host]) == []
    hosts_tag(actor=people.admin, hosts=[people.host], add=["eu"])
    people.host.refresh_from_db()
    assert [item.host for item in closed_hosts([people.host])] == [people.host]


def test_weekly_window_allows_its_own_hours(people: Cast) -> None:
    now = timezone.now()
    window = {"kind": "weekly", "zone": "UTC", "weekdays": [0, 1, 2, 3, 4, 5, 6]}
    opens, closes = (now - dt.timedelta(hours=1)).time(), (now + dt.timedelta(hours=1)).time()
    row = change_window_set(actor=people.admin, name="Now", opens_at=opens, closes_at=closes, **window)
    assert closed_hosts([people.host]) == []
    change_window_set(actor=people.admin, window=row, opens_at=closes, closes_at=(now + dt.timedelta(hours=2)).time())
    (closed,) = closed_hosts([people.host])
    assert closed.opens_at is not None and dt.timedelta() < closed.opens_at - now <= dt.timedelta(hours=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "freeze"},
        {"kind": "freeze", "begins_at": LATER, "ends_at": SOONER},
        {"kind": "weekly", "weekdays": [0]},
        {"kind": "weekly", "weekdays": [], "opens_at": dt.time(1), "closes_at": dt.time(2)},
        {"kind": "weekly", "weekdays": [7], "opens_at": dt.time(1), "closes_at": dt.time(2)},
        {"kind": "weekly", "weekdays": [0], "opens_at": dt.time(1), "closes_at": dt.time(1)},
        {"kind": "weekly", "weekdays": [0], "opens_at": dt.time(1), "closes_at": dt.time(2), "zone": "Mars/Base"},
        {"kind": "else"},
    ],
)
def test_incomplete_window_is_refused(people: Cast, wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        change_window_set(actor=people.admin, name="w", **wrong)
    with pytest.raises(PermissionDenied):
        change_window_set(actor=people.owner, name="w", **wrong)
    assert not ChangeWindow.objects.exists()


def test_pages_and_api_change_windows(people: Cast, plan: Deployment) -> None:
    browser, caller = signed_in(people.admin), caller_of(people.admin)
    sent = {"name": "Night", "kind": "weekly", "weekdays": ["5"], "zone": "UTC"}
    sent |= {"opens_at": "22:00", "closes_at": "02:00"}
    assert browser.post("/deployments/windows/new", sent).status_code == 302
    window = ChangeWindow.objects.get()
    assert "Saturday from 22:00 to 02:00, UTC" in browser.get("/deployments/windows").content.decode()
    assert browser.get(f"/deployments/windows/{window.pk}").context["form"].initial["weekdays"] == [5]
    wrong = browser.post(f"/deployments/windows/{window.pk}", sent | {"opens_at": ""})
    assert wrong.status_code == 422
    assert browser.post(f"/deployments/windows/{window.pk}/delete").status_code == 302
    body = {"name": "Sale", "kind": "freeze", "begins_at": "2020-01-01T00:00:00Z", "ends_at": "2100-01-01T00:00:00Z"}
    made = caller.post("change-windows/", body)
    assert made.status_code == 201 and made.json()["tags"] == []
    page = signed_in(people.owner).get(f"/deployments/{plan.uuid}").content.decode()
    assert "web-1 cannot be changed" in page and "despite_windows" not in page
    assert "despite_windows" in browser.get(f"/deployments/{plan.uuid}").content.decode()
    refused = caller_of(people.owner).post(f"deployments/{plan.uuid}/confirm/")
    assert refused.status_code == 409 and "Sale" in refused.json()["detail"]
    assert caller_of(people.owner).get("change-windows/").json()["results"][0]["name"] == "Sale"
    assert caller_of(people.owner).post("change-windows/", body).status_code == 403
    assert caller.patch(f"change-windows/{made.json()['id']}/", {"tags": ["x"]}).json()["tags"] == ["x"]
    assert caller.delete(f"change-windows/{made.json()['id']}/").status_code == 204
