"""The import pages show findings with file and line; adoption creates drafts and nothing else."""

from __future__ import annotations

import gzip
import html
import lzma
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from panel.audit.models import AuditEntry
from panel.deployments.models import DeploymentStatus
from panel.hosts.models import Engine
from panel.imports.models import Import
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support import archives
from tests.support.cast import Cast, cast, signed_in
from tests.support.nginx import NginxInstance


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def text_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def uploaded(client: Client, web_server: int, data: bytes, name: str = "nginx.tar.gz") -> Any:
    return client.post(
        "/hosts/web-1/imports/+upload/", {"web_server": web_server, "archive": SimpleUploadedFile(name, data)}
    )


@pytest.fixture
def record(people: Cast) -> Import:
    answer = uploaded(signed_in(people.admin), people.nginx.pk, archives.tar(archives.NGINX, archives.LINKS))
    assert answer.status_code == 302, text_of(answer)
    return Import.objects.get()


def address(record: Import, more: str = "") -> str:
    return f"/hosts/web-1/imports/{record.uuid}/{more}"


def test_host_page_links_to_import(people: Cast) -> None:
    client = signed_in(people.admin)
    assert 'href="/hosts/web-1/imports/"' in text_of(client.get("/hosts/web-1/"))
    page = text_of(client.get("/hosts/web-1/imports/"))
    assert "nginx on web-1" in page and "Apache httpd on web-1" in page
    assert "/imports/" not in text_of(signed_in(people.owner).get("/hosts/web-1/"))


def test_upload_report_shows_problems_by_file_and_line(people: Cast, record: Import) -> None:
    page = text_of(signed_in(people.admin).get(address(record)))
    assert "shop.example, www.shop.example" in page and "other.example" in page
    assert "/nginx/sites-enabled/shop:1" in page
    assert "/nginx/conf.d/broken.conf:2" in page, "where the server should have been closed"
    assert (record.sites_found, record.faults_found) == (2, 1)


def test_import_report_lists_every_directive_of_site(people: Cast, record: Import) -> None:
    page = text_of(signed_in(people.admin).get(address(record, "sites/shop-example/")))
    for words in ("location /api/", "stub_status", "kept as raw", "/nginx/sites-enabled/shop:7", "mapped"):
        assert words in page, words
    assert signed_in(people.admin).get(address(record, "sites/none/")).status_code == 404


def test_selected_sites_become_drafts(people: Cast, record: Import) -> None:
    client = signed_in(people.admin)
    open_sudo(client)
    answer = client.post(address(record), {"sites": ["shop-example"], "team": people.team.pk}, follow=True)
    page = text_of(answer)
    assert "1 site was adopted as a draft." in page
    site = Site.objects.get()
    assert (site.name, site.team, site.web_server) == ("shop-example", people.team, people.nginx)
    assert [item.pattern for item in site.blocks.get().locations.all()] == ["/", "/status", "/api/"]
    assert 'value="shop-example">' in page.split('id="next"')[1], "the plan is the next step"
    assert not site.deployment_items.exists()
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert [name for name in actions if name.startswith("import.")] == ["import.read", "import.adopt"]


def test_adoption_with_losses_requires_acceptance(people: Cast, record: Import) -> None:
    client = signed_in(people.admin)
    open_sudo(client)
    wanted = {"sites": ["other-example"], "team": people.team.pk, "add_folders": "on"}
    refused = client.post(address(record), wanted)
    assert refused.status_code == 422
    assert "/nginx/conf.d/other.conf:5 load_module" in text_of(refused)
    assert 'value="other-example" aria-label="Select other-example" checked' in " ".join(text_of(refused).split())
    assert not Site.objects.exists()
    assert client.post(address(record), {**wanted, "accept_refused": "on"}).status_code == 302
    assert Site.objects.get().name == "other-example"


def test_adoption_assigns_folders_only_when_requested(people: Cast, record: Import) -> None:
    client = signed_in(people.admin)
    open_sudo(client)
    wanted = {"sites": ["other-example"], "team": people.team.pk, "accept_refused": "on"}
    refused = client.post(address(record), wanted)
    assert refused.status_code == 422 and "/data/other" in text_of(refused)
    people.host.refresh_from_db()
    assert people.host.site_roots == ["/srv/www"]
    client.post(address(record), {**wanted, "add_folders": "on"})
    people.host.refresh_from_db()
    assert people.host.site_roots == ["/srv/www", "/data/other"]


def test_adoption_requires_password_and_selection(people: Cast, record: Import) -> None:
    client = signed_in(people.admin)
    close_sudo(client)
    answer = client.post(address(record), {"sites": ["shop-example"], "team": people.team.pk})
    assert answer.status_code == 302 and answer.headers["Location"].startswith("/confirm/")
    open_sudo(client)
    assert "Select the sites to adopt." in text_of(client.post(address(record), {"team": people.team.pk}))
    unknown = client.post(address(record), {"sites": ["nobody"], "team": people.team.pk})
    assert unknown.status_code == 422
    assert not Site.objects.exists()


@pytest.mark.parametrize("who", ["owner", "viewer", "outsider"])
def test_import_pages_require_administrator(people: Cast, record: Import, who: str) -> None:
    client = signed_in(getattr(people, who))
    open_sudo(client)
    for path in ("/hosts/web-1/imports/", address(record), address(record, "sites/shop-example/")):
        answer = client.get(path)
        assert answer.status_code == 403 and "shop.example" not in text_of(answer)
    assert client.post("/hosts/web-1/imports/+read/", {"web_server": people.nginx.pk}).status_code == 403
    assert uploaded(client, people.nginx.pk, b"x").status_code == 403
    assert client.post(address(record), {"sites": ["shop-example"], "team": people.team.pk}).status_code == 403
    assert client.post(address(record, "delete/")).status_code == 403
    assert Import.objects.count() == 1 and not Site.objects.exists()


@pytest.mark.parametrize(
    ("pack", "words"),  # not packed before: every process of a parallel run reads all files
    [
        (lambda: b"no archive", "cannot be read as a zip or tar"),
        (lambda: archives.tar({"../etc/passwd": "x"}), "points outside the archive"),
        (lambda: archives.tar({"/etc/passwd": "x"}), "points outside the archive"),
        (lambda: archives.zipped({"nginx/../../x.conf": "x"}), "points outside the archive"),
        (lambda: archives.zipped({"..\\x.conf": "x"}), "points outside the archive"),
        (lambda: archives.zipped({}), "cannot be read as a zip or tar"),
        (lambda: archives.zipped({f"{number}.conf": "" for number in range(5001)}), "too large when unpacked"),
        (lambda: archives.zipped({f"{n}.conf": " " * 1000_000 for n in range(40)}), "too large when unpacked"),
        (lambda: gzip.compress(bytes(65 * 1024 * 1024)), "too large when unpacked"),
        (lambda: gzip.compress(b"x" * 2000)[:-9], "cannot be read as a zip or tar"),
        (lambda: lzma.compress(b"x" * 2000)[:-30] + b"x" * 30, "cannot be read as a zip or tar"),
    ],
    ids=["text", "up", "absolute", "zip-up", "zip-backslash", "empty", "many", "large", "bomb", "cut", "torn"],
)
def test_invalid_or_escaping_archive_is_rejected(people: Cast, pack: Callable[[], bytes], words: str) -> None:
    answer = uploaded(signed_in(people.admin), people.nginx.pk, pack())
    assert answer.status_code == 422 and words in text_of(answer)
    assert not Import.objects.exists()


def test_link_out_of_archive_is_not_followed(people: Cast) -> None:
    files = {"nginx.conf": "http { include secret.conf; include sites/*; }"}
    data = archives.tar(files, {"secret.conf": "/etc/shadow", "sites/up": "../../../etc/passwd"})
    assert uploaded(signed_in(people.admin), people.nginx.pk, data).status_code == 302
    page = text_of(signed_in(people.admin).get(address(Import.objects.get())))
    assert "secret.conf does not exist" in page and "root:" not in page


def test_deleting_import_keeps_adopted_sites(people: Cast, record: Import) -> None:
    client = signed_in(people.admin)
    open_sudo(client)
    client.post(address(record), {"sites": ["shop-example"], "team": people.team.pk})
    assert client.get(address(record, "delete/")).status_code == 200
    client.post(address(record, "delete/"))
    assert not Import.objects.exists() and Site.objects.exists()


def test_imports_are_listed_per_host(people: Cast, record: Import) -> None:
    elsewhere = address(record).replace("web-1", "web-2")
    assert signed_in(people.admin).get(elsewhere).status_code == 404


# --- a live host ---


LIVE = """\
server {{
    listen {port};
    server_name shop.example;
    root {www}/shop;
    location = /gone {{ return 410; }}
}}
"""


def test_live_configuration_is_imported_and_deployed(remote: Machine, nginx: NginxInstance) -> None:
    remote.files("shop")
    (nginx.root / "conf.d" / "mine.conf").write_text(LIVE.format(port=remote.port, www=nginx.root / "www"))
    nginx.reload()
    assert remote.answers("shop", "this is shop")
    web_server = remote.web_server(nginx, Engine.NGINX)
    client = signed_in(remote.people.admin)
    open_sudo(client)
    read = client.post("/hosts/web-1/imports/+read/", {"web_server": web_server.pk}, follow=True)
    assert "shop-example" in text_of(read), text_of(read)
    where = read.redirect_chain[-1][0]
    client.post(where, {"sites": ["shop-example"], "team": remote.people.team.pk})
    assert (nginx.root / "conf.d" / "mine.conf").exists(), "nothing changes before the plan is confirmed"
    planned = client.post("/deployments/plan", {"site": ["shop-example"]}, follow=True)
    assert str(nginx.root / "conf.d" / "mine.conf") in text_of(planned)
    site = Site.objects.get()
    done = remote.run(site.deployment_items.get().deployment)
    assert done.status == DeploymentStatus.SUCCEEDED, done.error
    page = text_of(client.get(f"/deployments/{done.uuid}"))
    assert "before the takeover are unchanged" in page and "http://shop.example" in page
    assert not (nginx.root / "conf.d" / "mine.conf").exists()
    assert remote.answers("shop", "this is shop")
    assert remote.get("shop", "/gone").status == 410


def test_unreachable_host_is_reported_at_import_form(people: Cast) -> None:
    people.host.connection, people.host.address, people.host.port = "ssh", "127.0.0.1", 1
    people.host.host_key = ""
    people.host.save()
    answer = signed_in(people.admin).post("/hosts/web-1/imports/+read/", {"web_server": people.nginx.pk})
    assert answer.status_code == 422
    assert "web-1" in text_of(answer) and not Import.objects.exists()


def open_sudo(client: Client) -> None:
    import time

    session = client.session
    session["sudo_at"] = int(time.time())
    session.save()


def close_sudo(client: Client) -> None:
    session = client.session
    session.pop("sudo_at", None)
    session.save()
