"""Edits of deployed files become settings of their site, exactly or not at all."""

from __future__ import annotations

import pytest

from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError
from panel.deployments.drift.services import drift_adopt, drift_check
from panel.deployments.models import Drift, PinnedFile, SiteState, SiteStatus
from panel.deployments.revisions.rendered import contents, sha256_of
from panel.deployments.rollback.services import is_said
from panel.hosts.models import Engine, WebServer
from panel.imports.edits.services import edit_adopt
from panel.websites import services as websites
from panel.websites.models import Site
from panel.websites.services import site_export
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.deployments.sample_plans import live, shop_with_parts
from tests.support.cast import Cast, cast, signed_in
from tests.support.nginx import NginxInstance
from tests.support.waiting import eventually

INDEX = "    index index.html;"
APP = "    location ^~ /app/ {"
HTTPS = "\nserver {\n    listen 443"
PHP = r"""    location ~ \.php$ {
        try_files $fastcgi_script_name =404;
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_pass unix:/run/php/shop.sock;
    }
"""
ADOPTED = {
    "limit of bodies": (INDEX, f"{INDEX}\n    client_max_body_size 20m;"),
    "connections kept open": ("keepalive 16", "keepalive 32"),
    "another server": ("server 127.0.0.1:9001;", "server 127.0.0.1:9001;\n    server 127.0.0.1:9002 weight=2;"),
    "new location": (APP, f"    location = /health {{\n        return 200 ok;\n    }}\n{APP}"),
    "removed location": (PHP, ""),
    "raw directive": (INDEX, f"{INDEX}\n    etag off;"),
    "header": (INDEX, f"{INDEX}\n    add_header X-A b;"),
    "header of errors": (INDEX, f"{INDEX}\n    add_header X-A b always;"),
    "HSTS": (INDEX, f'{INDEX}\n    add_header Strict-Transport-Security "max-age=31536000" always;'),
    "comment": (INDEX, f"    # by hand\n{INDEX}"),
    "document root": ("root /srv/www/shop;", "root /srv/www/shop2;"),
    "compression": (INDEX, f"{INDEX}\n    gzip on;"),
    "access rules": (APP, f"{APP}\n        allow 10.0.0.0/8;\n        deny all;"),
    "expiry": (APP, f"{APP}\n        expires 1h;"),
    "rewrite": (INDEX, f"{INDEX}\n    rewrite ^/a$ /b permanent;"),
    "access log": (INDEX, f"{INDEX}\n    access_log /var/log/nginx/shop.log;"),
    "error page": (INDEX, f"{INDEX}\n    error_page 404 /404.html;"),
}
REFUSED = {
    "one of two timeouts": (APP, f"{APP}\n        proxy_read_timeout 5s;", "would also create “proxy_send_timeout 5s”"),
    "a name of one of two server blocks": ("server_name shop", "server_name www.shop.example shop", "server_name"),
    "directive that sites may not have": (INDEX, f"{INDEX}\n    load_module x.so;", "load_module"),
    "new server block": (
        "\nserver {\n    listen 443",
        "\nserver { listen 81; }\nserver {\n    listen 443",
        "adds or removes server blocks",
    ),
    "deep blocks": (INDEX, INDEX + " if ($a) {" * 3000 + "}" * 3000, "nested too deep"),
    "very many raw directives": (INDEX, INDEX + "\n    etag off;" * 3000, "more than 2000 lines"),
    "missing brace": (PHP, PHP.rstrip().removesuffix("}"), "line "),
}


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def made(people: Cast, web_server: WebServer) -> Site:
    """A live site with HTTPS, an upstream and a PHP pool."""
    site = shop_with_parts(people, web_server)
    live(people, site)
    return site


def edited(site: Site, before: str, after: str) -> Drift:
    """Record a drift: on the host, `after` replaced the last `before` of the site's configuration file."""
    revision = SiteState.objects.get(site=site).revision
    assert revision is not None
    record = next(row for row in revision.files if row["path"].endswith(".conf") and not row["link"])
    text = contents([record["sha256"]])[record["sha256"]]
    start, found, end = text.rpartition(before)
    assert found, before
    SiteState.objects.filter(site=site).update(status=SiteStatus.DRIFTED)
    digests = {"expected_sha256": record["sha256"], "found_sha256": sha256_of(start + after + end)}
    place = {"site": site, "web_server": revision.web_server, "path": record["path"]}
    return Drift.objects.create(**place, **digests, found=start + after + end)


def state_of(site: Site) -> tuple[str, bool, str]:
    """Status, whether the draft is live, and the text of the live configuration file."""
    state = SiteState.objects.select_related("revision__web_server").get(site=site)
    assert state.revision is not None
    record = next(row for row in state.revision.files if row["path"].endswith(".conf") and not row["link"])
    fresh = Site.objects.get(pk=site.pk)
    return state.status, is_said(fresh, state.revision), contents([record["sha256"]])[record["sha256"]]


@pytest.mark.parametrize(("before", "after"), ADOPTED.values(), ids=[name.replace(" ", "-") for name in ADOPTED])
def test_edit_of_nginx_becomes_settings(people: Cast, before: str, after: str) -> None:
    site = made(people, people.nginx)
    drift = edited(site, before, after)
    edit_adopt(actor=people.admin, drift=drift)
    drift.refresh_from_db()
    assert drift.resolution == "adopted" and not PinnedFile.objects.exists()
    assert state_of(site) == (SiteStatus.LIVE, True, drift.found)


@pytest.mark.parametrize(
    ("before", "after", "words"), REFUSED.values(), ids=[name.replace(" ", "-") for name in REFUSED]
)
def test_edit_that_settings_do_not_give_changes_nothing(people: Cast, before: str, after: str, words: str) -> None:
    site = made(people, people.nginx)
    drift = edited(site, before, after)
    was = site_export(Site.objects.get(pk=site.pk)), state_of(site), AuditEntry.objects.count()
    with pytest.raises(ApplicationError, match=words) as refused:
        edit_adopt(actor=people.admin, drift=drift)
    assert "Nothing was changed" in refused.value.message
    assert (site_export(Site.objects.get(pk=site.pk)), state_of(site), AuditEntry.objects.count()) == was
    assert Drift.objects.get().resolution == ""


def test_draft_keeps_its_own_changes(people: Cast) -> None:
    site = made(people, people.nginx)
    block = site.blocks.get()
    websites.block_update(actor=people.admin, block=block, client_max_body_mb=7)
    edit_adopt(actor=people.admin, drift=edited(site, INDEX, f"{INDEX}\n    autoindex on;"))
    block.refresh_from_db()
    assert (block.client_max_body_mb, block.autoindex) == (7, True)
    status, is_live, text = state_of(site)
    assert status == SiteStatus.LIVE and not is_live
    assert "autoindex on;" in text and "client_max_body_size" not in text


def test_text_that_was_kept_is_released_once_it_becomes_settings(people: Cast) -> None:
    site = made(people, people.nginx)
    drift_adopt(actor=people.admin, drift=edited(site, INDEX, f"    # by hand\n{INDEX}"))
    edit_adopt(actor=people.admin, drift=edited(site, INDEX, f"{INDEX}\n    autoindex on;"))
    assert not PinnedFile.objects.exists()
    assert state_of(site)[0] == SiteStatus.LIVE and site.blocks.get().autoindex


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DirectoryIndex index.html", "DirectoryIndex index.html index.htm"),
        ("    SSLEngine on", "    # by hand\n    SSLEngine on"),
    ],
)
def test_edit_of_apache_becomes_settings(people: Cast, before: str, after: str) -> None:
    site = made(people, people.apache)
    drift = edited(site, before, after)
    edit_adopt(actor=people.admin, drift=drift)
    assert state_of(site) == (SiteStatus.LIVE, True, drift.found)


def test_page_adopts_for_administrators_only(people: Cast) -> None:
    site = made(people, people.nginx)
    drift = edited(site, INDEX, f"{INDEX}\n    gzip on;")
    url = f"/hosts/{people.host.name}/imports/+edit/{drift.pk}/"
    assert signed_in(people.owner).post(url).status_code == 403
    assert signed_in(people.outsider).post(url).status_code == 404
    client = signed_in(people.admin)
    assert url in client.get(f"/deployments/drift/{drift.pk}").content.decode()
    answer = client.post(url, follow=True)
    assert "is now part of the settings" in answer.content.decode()
    entry = AuditEntry.objects.get(action="drift.adopt_settings")
    assert entry.after["path"] == drift.path and entry.actor == people.admin


def test_api_adopts_and_returns_the_site(people: Cast) -> None:
    site = made(people, people.nginx)
    drift = edited(site, INDEX, f"{INDEX}\n    gzip on;")
    assert caller_of(people.owner).post(f"drifts/{drift.pk}/adopt-settings/").status_code == 403
    answer = caller_of(people.admin).post(f"drifts/{drift.pk}/adopt-settings/")
    assert (answer.status_code, answer.json()["name"]) == (200, "shop")


def test_edit_on_a_real_host_becomes_settings_that_the_next_deployment_keeps(
    remote: Machine, nginx: NginxInstance
) -> None:
    site = remote.site("shop", remote.web_server(nginx, Engine.NGINX))
    remote.deploy(site)
    path = next(path for path in nginx.root.rglob("*shop*.conf") if not path.is_symlink())
    path.write_text(path.read_text().replace("    root ", "    add_header X-By hand;\n    root ", 1))
    (drift,) = drift_check(remote.host)
    edit_adopt(actor=remote.people.admin, drift=drift)
    assert drift_check(remote.host) == []
    websites.block_update(actor=remote.people.admin, block=site.blocks.get(), autoindex=True)
    assert remote.deploy(site).status == "succeeded"
    assert path.read_text().count("add_header X-By hand;") == 1
    assert eventually(lambda: remote.get("shop").headers.get("x-by") == "hand")
