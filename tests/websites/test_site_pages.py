"""The other pages of a site: overview, parts, certificates, rendered files, clone, web server and deletion."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.test import Client

from panel.deployments.models import Blob, PinnedFile
from panel.hosts.models import WebServer
from panel.websites import services
from panel.websites.models import Certificate, PhpPool, Site, Upstream
from tests.support.cast import Cast, signed_in
from tests.websites.conftest import shop_definition

TABS = (
    "",
    "blocks/",
    "php/",
    "upstreams/",
    "tls/",
    "raw/",
    "history/",
    "benchmarks/",
    "traffic/",
    "logs/",
    "edit/",
    "clone/",
)


def text_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


@pytest.mark.parametrize("tab", TABS)
def test_site_tabs_open_and_name_site(owner: Client, shop: Site, tab: str) -> None:
    answer = owner.get(f"/sites/shop/{tab}")
    assert answer.status_code == 200
    assert "<h1>shop</h1>" in text_of(answer)


def test_overview_links_to_deployment_problems(owner: Client, people: Cast) -> None:
    block = {"listens": [{"port": 80}], "names": ["x.example"], "root": "/opt/x", "locations": []}
    site = services.site_define(
        actor=people.owner, data=shop_definition(people, name="x", blocks=[block], upstreams=[], php_pools=[])
    )
    page = text_of(owner.get("/sites/x/"))
    assert "/opt/x is outside the site folders of web-1: /srv/www." in page
    assert f'href="/sites/x/blocks/{site.blocks.get().pk}/"' in page


def test_overview_lists_files_with_adopted_host_edits(owner: Client, people: Cast, shop: Site) -> None:
    where = "/sites/shop/"
    assert "Adopted files" not in text_of(owner.get(where))
    Blob.objects.create(sha256="ab", content="# mine\n", size=7)
    path = "/etc/nginx/conf.d/shop.conf"
    PinnedFile.objects.create(site=shop, web_server=people.nginx, path=path, blob_id="ab", adopted_by=people.admin)
    told = text_of(owner.get(where)).partition("Adopted files")[2]
    assert path in told
    assert "/deployments/drift" in told


def test_rendered_files_show_no_secret(owner: Client, people: Cast, shop: Site) -> None:
    certificate = services.certificate_self_sign(actor=people.owner, team=people.team, name="c", names=["shop.example"])
    block = shop.blocks.get()
    listens = [{"port": 443, "tls": True}]
    services.block_update(actor=people.owner, block=block, listens=listens, certificate=certificate)
    page = text_of(owner.get("/sites/shop/raw/"))
    assert "server_name shop.example www.shop.example;" in page
    assert "This file is secret, so Paddock hides its content." in page
    assert "PRIVATE KEY" not in page


def test_rendered_files_of_unknown_web_server_return_404(owner: Client, shop: Site) -> None:
    for wanted in ("999999", "abc", "-1"):
        assert "server_name" not in text_of(owner.get(f"/sites/shop/raw/?web_server={wanted}"))


def test_upstream_is_added_changed_and_not_deleted_while_used(owner: Client, shop: Site) -> None:
    sent = {
        "name": "api",
        "balancing": "least_conn",
        "keepalive": "8",
        "servers": "10.0.0.2:80 weight=3\n10.0.0.3:80 backup",
    }
    assert owner.post("/sites/shop/upstreams/+new/", sent).status_code == 302
    api = Upstream.objects.get(name="api")
    assert [(row.address, row.weight, row.backup) for row in api.servers.all()] == [
        ("10.0.0.2:80", 3, False),
        ("10.0.0.3:80", 1, True),
    ]
    owner.post(f"/sites/shop/upstreams/{api.pk}/", sent | {"servers": "10.0.0.9:80", "version": api.row_version})
    assert [row.address for row in api.servers.all()] == ["10.0.0.9:80"]
    used = Upstream.objects.get(name="app")
    answer = owner.post(f"/sites/shop/upstreams/{used.pk}/delete/", follow=True)
    assert "app is used by the locations /api/" in text_of(answer)
    assert Upstream.objects.filter(pk=used.pk).exists()


def test_upstream_to_cloud_metadata_service_is_rejected(owner: Client, shop: Site) -> None:
    sent = {"name": "meta", "balancing": "round_robin", "keepalive": "8", "servers": "169.254.169.254:80"}
    answer = owner.post("/sites/shop/upstreams/+new/", sent)
    assert answer.status_code == 422
    assert "metadata service" in text_of(answer)


def test_php_pool_rejects_settings_that_change_executed_code(owner: Client, shop: Site) -> None:
    sent = {"name": "php2", "address": "127.0.0.1:9000", "settings": "auto_prepend_file = /tmp/x.php"}
    answer = owner.post("/sites/shop/php/+new/", sent)
    assert answer.status_code == 422
    assert "auto_prepend_file cannot be set per site" in text_of(answer)
    assert owner.post("/sites/shop/php/+new/", sent | {"settings": "memory_limit = 256M"}).status_code == 302
    assert PhpPool.objects.get(name="php2").settings == {"memory_limit": "256M"}


def test_self_signed_certificate_is_created_and_deleted_by_name(owner: Client, people: Cast) -> None:
    sent = {"name": "test", "team": people.team.pk, "names": "a.example\n*.a.example", "days": "30"}
    assert owner.post("/sites/+certificates/+self-signed/", sent)["Location"] == "/sites/+certificates/test/"
    page = text_of(owner.get("/sites/+certificates/test/"))
    assert "a.example, *.a.example" in page
    assert "PRIVATE KEY" not in page
    assert owner.post("/sites/+certificates/test/delete/", {"confirm": "tset"}).status_code == 422
    assert Certificate.objects.exists()
    owner.post("/sites/+certificates/test/delete/", {"confirm": "test"})
    assert not Certificate.objects.exists()


def test_invalid_certificate_is_rejected_at_its_field(owner: Client, people: Cast) -> None:
    sent = {"name": "bad", "team": people.team.pk, "certificate_pem": "nonsense", "private_key_pem": "nonsense"}
    answer = owner.post("/sites/+certificates/+upload/", sent)
    assert answer.status_code == 422
    assert answer.context["form"].errors["certificate_pem"][0].startswith("This is not a PEM certificate")


def test_certificate_of_another_team_is_hidden(outsider: Client, people: Cast) -> None:
    services.certificate_self_sign(actor=people.owner, team=people.team, name="c", names=["a.example"])
    for url in ("c/", "c/delete/", "c/renew/"):
        assert outsider.get(f"/sites/+certificates/{url}").status_code == 404


def test_site_clone_gets_own_domains(owner: Client, shop: Site) -> None:
    answer = owner.post("/sites/shop/clone/", {"name": "shop-2", "domains": "two.example"})
    assert answer["Location"] == "/sites/shop-2/"
    copy = Site.objects.get(name="shop-2")
    assert [row.name for row in copy.blocks.get().names.all()] == ["two.example"]
    assert copy.blocks.get().locations.count() == 3


def test_draft_can_choose_web_server(owner: Client, people: Cast, shop: Site) -> None:
    assert owner.post("/sites/shop/server/", {"web_server": people.apache.pk}).status_code == 302
    shop.refresh_from_db()
    assert shop.web_server == people.apache
    assert owner.post("/sites/shop/server/", {"web_server": "999999"}).status_code == 422
    shop.refresh_from_db()
    assert shop.web_server == people.apache


def test_renaming_site_keeps_other_fields(owner: Client, people: Cast, shop: Site) -> None:
    sent = {"name": "store", "team": people.team.pk, "health_path": "/health", "notes": "Mind the gap", "version": ""}
    assert owner.post("/sites/shop/edit/", sent)["Location"] == "/sites/store/"
    shop.refresh_from_db()
    assert (shop.name, shop.health_path, shop.notes) == ("store", "/health", "Mind the gap")
    assert WebServer.objects.get(sites=shop) == people.nginx


def test_site_deletion_requires_typed_name_and_lists_losses(owner: Client, shop: Site) -> None:
    page = text_of(owner.get("/sites/shop/delete/"))
    assert "1 server block with its locations" in page
    assert "Type shop to confirm" in page
    assert (
        owner.post("/sites/shop/delete/", {"confirm": "shop "}).status_code == 302
    )  # spaces round it are no other name
    assert not Site.objects.exists()


def test_site_deletion_with_wrong_name_is_rejected(owner: Client, shop: Site) -> None:
    answer = owner.post("/sites/shop/delete/", {"confirm": "Shop"})
    assert answer.status_code == 422
    assert "The name does not match" in text_of(answer)
    assert Site.objects.exists()


def test_web_server_logs_require_administrator(owner: Client, admin: Client, shop: Site) -> None:
    assert "This site has no log of its own" in text_of(owner.get("/sites/shop/logs/"))
    assert owner.get("/sites/shop/logs/?log=server-access").status_code == 404
    assert "The web server's access log" in text_of(admin.get("/sites/shop/logs/"))


def test_search_finds_only_visible_objects(owner: Client, outsider: Client, shop: Site) -> None:
    found = text_of(owner.get("/search/?q=www.shop"))
    assert 'href="/sites/shop/"' in found
    assert "No name, domain, address, or folder matches" in text_of(outsider.get("/search/?q=www.shop"))
    part = owner.get("/search/?q=shop", HTTP_HX_REQUEST="true", HTTP_HX_TARGET="palette-results")
    assert b"<html" not in part.content
    assert "Enter at least two letters" in text_of(owner.get("/search/?q=s"))


@pytest.mark.parametrize(
    ("words", "leads_to"),
    [
        ("127.0.0.1:3000", "/sites/shop/upstreams/"),
        ("php8.2-fpm", "/sites/shop/php/"),
        ("/srv/www/shop", "/sites/shop/blocks/"),
    ],
)
def test_search_finds_sites_by_upstream_address_and_folder(
    owner: Client, outsider: Client, shop: Site, words: str, leads_to: str
) -> None:
    """Answers which sites depend on an address or folder, without sites of other teams."""
    assert f'href="{leads_to}"' in text_of(owner.get("/search/", {"q": words}))
    assert "shop" not in text_of(outsider.get("/search/", {"q": words})).partition("<main")[2].replace(words, "")


def test_search_links_to_permitted_panel_pages(owner: Client, admin: Client) -> None:
    """Only pages that the user may open."""
    assert 'href="/account/tokens/"' in text_of(owner.get("/search/?q=api+tok"))
    assert 'href="/settings/users/"' in text_of(admin.get("/search/?q=users")).partition("<main")[2]
    assert 'href="/settings/users/"' not in text_of(owner.get("/search/?q=users")).partition("<main")[2]


def test_selected_sites_are_preset_in_benchmark_form(owner: Client, shop: Site) -> None:
    answer = owner.post("/sites/+bulk/", {"site": ["shop"], "action": "measure"})
    assert answer["Location"] == "/benchmarks/new?site=shop"


def test_site_clone_gets_web_server_and_port_in_one_step(owner: Client, people: Cast, shop: Site) -> None:
    given = {"name": "shop-2", "domains": "", "web_server": people.apache.pk, "port": "99999"}
    refused = owner.post("/sites/shop/clone/", given)
    assert refused.status_code == 422
    assert "65535" in refused.content.decode()
    assert owner.post("/sites/shop/clone/", given | {"name": "shop-2", "domains": "two.example"}).status_code == 422
    assert not Site.objects.filter(name="shop-2").exists()
    done = owner.post("/sites/shop/clone/", given | {"domains": "two.example", "port": "8099"})
    assert done.status_code == 302, done.content.decode()
    assert Site.objects.get(name="shop-2").web_server == people.apache


def test_problem_links_to_editor_only_for_permitted_users(people: Cast, shop: Site) -> None:
    block = shop.blocks.get()
    services.block_update(actor=people.owner, block=block, listens=[{"port": 443, "tls": True}])
    editor = f'href="/sites/shop/blocks/{block.pk}/"'
    assert editor in text_of(signed_in(people.owner).get("/sites/shop/"))
    page = text_of(signed_in(people.viewer).get("/sites/shop/"))
    assert "Fix before deploying" in page and editor not in page
