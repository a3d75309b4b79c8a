"""Imports over the API: read, inspect and adopt, for administrators with the admin scope."""

from __future__ import annotations

import base64

import pytest

from panel.audit.models import AuditEntry
from panel.imports.models import Import
from panel.websites.models import Site
from tests.api.caller import Caller, caller_of, pointers
from tests.support import archives
from tests.support.cast import Cast


def packed(people: Cast, **changes: object) -> dict[str, object]:
    data = base64.b64encode(archives.tar(archives.NGINX, archives.LINKS)).decode()
    return {"web_server": people.nginx.pk, "filename": "nginx.tar.gz", "archive": data, **changes}


@pytest.fixture
def made(admin: Caller, people: Cast) -> str:
    answer = admin.post("imports/upload/", packed(people))
    assert answer.status_code == 201, answer.content
    uuid = answer.json()["uuid"]
    assert answer["Location"] == f"/api/v1/imports/{uuid}/"
    return str(uuid)


def test_import_lists_found_sites(admin: Caller, made: str) -> None:
    found = admin.get(f"imports/{made}/").json()
    assert (found["host"], found["engine"], found["source"], found["sites_found"]) == ("web-1", "nginx", "upload", 2)
    (fault,) = found["faults"]
    assert (fault["file"], fault["line"]) == ("/nginx/conf.d/broken.conf", 2)
    sites = {site["name"]: site for site in found["sites"]}
    assert sites["shop-example"]["domains"] == ["shop.example", "www.shop.example"]
    assert sites["other-example"]["counts"]["refused"] == 1
    (detail,) = admin.get(f"imports/{made}/sites/?name=shop-example").json()
    assert {"mapped", "snippet"} <= {item["outcome"] for item in detail["items"]}
    assert detail["definition"]["blocks"][0]["root"] == "/srv/www/shop"
    assert admin.get(f"imports/{made}/sites/?name=none").status_code == 404
    assert [row["uuid"] for row in admin.get("imports/?source=upload").json()["results"]] == [made]
    assert admin.get("imports/?source=host").json()["results"] == []


def test_adoption_creates_all_sites_or_none(admin: Caller, people: Cast, made: str) -> None:
    both = {"sites": ["shop-example", "other-example"], "team": "shop"}
    refused = admin.post(f"imports/{made}/adopt/", both)
    assert refused.status_code == 422 and pointers(refused) == ["/accept_refused"]
    refused = admin.post(f"imports/{made}/adopt/", both | {"accept_refused": True})
    assert refused.status_code == 422 and pointers(refused) == ["/add_folders"]
    assert not Site.objects.exists()
    accepted = both | {"accept_refused": True, "add_folders": True}
    tried = admin.post(f"imports/{made}/adopt/?dry_run=true", accepted)
    assert tried.status_code == 200 and tried.json()["sites"] == ["shop-example", "other-example"]
    assert not Site.objects.exists()
    done = admin.post(f"imports/{made}/adopt/", accepted)
    assert done.status_code == 200 and Site.objects.count() == 2
    assert admin.post(f"imports/{made}/adopt/", accepted).status_code == 422
    assert set(admin.get(f"imports/{made}/").json()["adopted"]) == {"shop-example", "other-example"}
    assert AuditEntry.objects.filter(action="import.adopt").count() == 1


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"archive": "%%%"}, "/archive"),
        ({"archive": base64.b64encode(b"no archive").decode()}, "/archive"),
        ({"archive": base64.b64encode(archives.tar({"../x": "y"})).decode()}, "/archive"),
        ({"web_server": 10**9}, "/web_server"),
        ({"web_server": "nginx"}, "/web_server"),
        ({"path": "/etc"}, "/path"),
    ],
    ids=["base64", "archive", "climbs", "unknown", "word", "member"],
)
def test_import_errors_appear_at_their_field(
    admin: Caller, people: Cast, changes: dict[str, object], pointer: str
) -> None:
    answer = admin.post("imports/upload/", packed(people, **changes))
    assert answer.status_code == 422 and pointer in pointers(answer), answer.content
    assert not Import.objects.exists()


def test_adoption_reports_existing_sites(admin: Caller, made: str) -> None:
    assert pointers(admin.post(f"imports/{made}/adopt/", {"sites": ["nobody"], "team": "shop"})) == ["/sites"]
    assert pointers(admin.post(f"imports/{made}/adopt/", {"sites": [], "team": "shop"})) == ["/sites"]
    assert pointers(admin.post(f"imports/{made}/adopt/", {"sites": ["shop-example"], "team": "none"})) == ["/team"]
    assert not Site.objects.exists()


def test_imports_require_administrator_and_scope(people: Cast, made: str) -> None:
    callers = [caller_of(person) for person in (people.owner, people.viewer, people.outsider)]
    for caller in [*callers, caller_of(people.admin, ["read", "sites", "deploy"])]:
        for path in ("imports/", f"imports/{made}/", f"imports/{made}/sites/"):
            answer = caller.get(path)
            assert answer.status_code == 403 and "shop.example" not in answer.content.decode()
        assert caller.post("imports/", {"web_server": people.nginx.pk}).status_code == 403
        assert caller.post("imports/upload/", packed(people)).status_code == 403
        assert caller.post(f"imports/{made}/adopt/", {"sites": ["shop-example"], "team": "shop"}).status_code == 403
        assert caller.delete(f"imports/{made}/").status_code == 403
    assert Import.objects.count() == 1 and not Site.objects.exists()


def test_import_can_be_deleted(admin: Caller, made: str) -> None:
    assert admin.delete(f"imports/{made}/").status_code == 204
    assert admin.get(f"imports/{made}/").status_code == 404


def test_live_configuration_is_read_on_host(admin: Caller, people: Cast, settings, server_root) -> None:  # type: ignore[no-untyped-def]
    """The host is this machine; its server's folder is the test's own."""
    settings.LOCAL_HOST_ROOT = server_root / "agent-home"
    main = server_root / "nginx.conf"
    main.write_text("events {}\nhttp {\n  server { listen 8099; server_name here.example; return 204; }\n}\n")
    people.nginx.paths = {**people.nginx.paths, "config_root": str(server_root), "main_config": str(main)}
    people.nginx.save()
    answer = admin.post("imports/", {"web_server": people.nginx.pk})
    assert answer.status_code == 201, answer.content
    (site,) = answer.json()["sites"]
    assert (site["name"], site["places"]) == ("here-example", [f"{main}:3"])
