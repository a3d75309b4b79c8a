"""A draft is reset to an earlier revision, on the page and over the API, without a deployment."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from django.urls import reverse

from panel.audit.models import AuditEntry
from panel.deployments.models import Deployment, Revision
from panel.deployments.revisions.rendered import frozen_now, revisions_keep
from panel.deployments.rollback.services import draft_restore
from panel.rendering import spec
from panel.websites import freeze
from panel.websites import services as websites
from panel.websites.models import Maintenance, Site
from tests.api.caller import caller_of
from tests.deployments.sample_plans import live, planned, shop
from tests.support.cast import Cast, signed_in
from tests.support.client_certificates import Authority


def revision_url(number: int, name: str = "revision") -> str:
    return reverse(f"websites:{name}", args=["shop", number])


def _changed_since(people: Cast) -> Site:
    """Revision 1 has autoindex off and stands; the draft has it on, a note and nothing planned."""
    site = shop(people)
    live(people, site)
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    websites.site_update(actor=people.owner, site=site, notes="stays")
    return site


def test_reset_page_shows_diff_and_resets_draft(people: Cast) -> None:
    site = _changed_since(people)
    block, client = site.blocks.get(), signed_in(people.owner)
    history = client.get(reverse("websites:history", args=["shop"])).content.decode()
    assert revision_url(1) in history
    page = client.get(revision_url(1)).content.decode()
    assert "autoindex on;" in page and "Restore the draft to this revision" in page
    version = Site.objects.get().row_version
    done = client.post(revision_url(1, "set_back"), {"version": version}, follow=True).content.decode()
    assert "The draft is restored to #1; the earlier draft is saved as #2." in done
    assert (
        "This revision is already live: there is nothing to deploy." in done
        and "changed since last deployment" not in done
    )
    assert site.blocks.get() == block and not site.blocks.get().autoindex
    assert Site.objects.get().notes == "stays"
    assert Deployment.objects.count() == 1, "nothing is planned, let alone deployed"
    entry = AuditEntry.objects.get(action="site.set_back")
    assert (entry.actor, entry.after["revision"]) == (people.owner, 1)
    assert entry.before["blocks"][0]["autoindex"] and not entry.after["blocks"][0]["autoindex"]
    page = client.get(revision_url(1)).content.decode()
    assert "The draft matches this revision." in page and "Restore the draft" not in page
    # and there again, by what was kept
    version = Site.objects.get().row_version
    done = client.post(revision_url(2, "set_back"), {"version": version}, follow=True).content.decode()
    assert "Plan a deployment to apply the draft to the host." in done and "changed since last deployment" in done
    assert site.blocks.get().autoindex


def test_draft_reset_is_undone_by_message_button(people: Cast) -> None:
    """The undo can be undone. Each is offered once, and not after another change."""
    site = _changed_since(people)
    client = signed_in(people.owner)
    page = client.post(revision_url(1, "set_back"), {"version": Site.objects.get().row_version}, follow=True)
    assert _undo(page.content.decode()) == (revision_url(2, "set_back"), Site.objects.get().row_version)
    assert _undo(client.get(reverse("websites:detail", args=["shop"])).content.decode()) is None
    page = client.post(revision_url(2, "set_back"), {"version": Site.objects.get().row_version}, follow=True)
    assert site.blocks.get().autoindex
    offered = _undo(page.content.decode())
    assert offered is not None and offered[0] == revision_url(1, "set_back")
    websites.block_update(actor=people.owner, block=site.blocks.get(), names=["new.example"])
    refused = client.post(offered[0], {"version": offered[1]}, follow=True).content.decode()
    assert "was changed or deleted by someone else" in refused and _undo(refused) is None
    assert site.blocks.get().autoindex


def _undo(page: str) -> tuple[str, int] | None:
    """Where the button leads, and the version that it expects."""
    form = re.search(r'<form method="post" action="([^"]+)" class="inline">(?:(?!</form>).)*Undo</button>', page, re.S)
    version = re.search(r'name="version" value="(\d+)"', form[0]) if form else None
    return (form[1], int(version[1])) if form and version else None


def test_draft_reset_is_rejected_when_draft_changed_meanwhile(people: Cast) -> None:
    site = _changed_since(people)
    version = Site.objects.get().row_version
    websites.block_update(actor=people.owner, block=site.blocks.get(), names=["new.example"])
    answer = signed_in(people.owner).post(revision_url(1, "set_back"), {"version": version}, follow=True)
    assert "was changed or deleted by someone else since you opened it" in answer.content.decode()
    assert [row.name for row in site.blocks.get().names.all()] == ["new.example"]
    assert not AuditEntry.objects.filter(action="site.set_back").exists()
    assert Revision.objects.count() == 1, "nothing was kept of what was not changed"


def test_api_resets_draft_with_matching_etag(people: Cast) -> None:
    site = _changed_since(people)
    caller = caller_of(people.owner)
    stale = caller.post("sites/shop/set-back/", {"revision": 1}, If_Match='W/"1"')
    assert stale.status_code == 412
    tag = caller.get("sites/shop/").headers["ETag"]
    assert caller.post("sites/shop/set-back/?dry_run=true", {"revision": 1}).status_code == 200
    assert site.blocks.get().autoindex
    done = caller.post("sites/shop/set-back/", {"revision": 1}, If_Match=tag)
    assert done.status_code == 200 and done.headers["ETag"] != tag
    assert not site.blocks.get().autoindex
    assert caller.post("sites/shop/set-back/", {"revision": 9}).status_code == 422
    assert caller_of(people.outsider).post("sites/shop/set-back/", {"revision": 1}).status_code == 404
    assert caller_of(people.viewer).post("sites/shop/set-back/", {"revision": 1}).status_code == 403
    page = signed_in(people.viewer).get(revision_url(1)).content.decode()
    assert "Restore the draft" not in page


def test_reset_of_raw_directives_requires_administrator(people: Cast) -> None:
    site = shop(people)
    websites.snippet_create(actor=people.admin, site=site, engine="nginx", text="expires 1h;", block=site.blocks.get())
    planned(people, site)
    websites.snippet_delete(actor=people.admin, snippet=site.snippets.get())
    refused = signed_in(people.owner).post(revision_url(1, "set_back"))
    assert refused.status_code == 403 and not site.snippets.exists()
    client = signed_in(people.admin)
    client.post(revision_url(1, "set_back"))
    assert site.snippets.get().text == "expires 1h;"


def _everything(people: Cast) -> dict[str, Any]:
    """Members of a site, each at another value than its default."""
    header = [{"name": "X-A", "value": "b", "always": False}]
    rewrites = [{"pattern": "^/a$", "replacement": "/b", "flag": "last"}]
    files = {
        "index": ["i.html"],
        "try_files": ["$uri", "=404"],
        "autoindex": True,
        "rewrites": rewrites,
        "headers": header,
    }
    common: dict[str, Any] = {"client_max_body_mb": 3, "gzip": "on"}
    kept = {"cache_times": [{"codes": [200], "seconds": 9}], "cache_skip_cookies": ["s_*"], "cache_skip_queries": True}
    kept |= {"cache_stale": False, "cache_header": True, "cache_key": "$host$uri"}
    rules = [{"action": "allow", "source": "10.0.0.0/8"}, {"action": "deny", "source": "all"}]
    limits = {"rate_limit_rps": 5, "rate_limit_burst": 9, "connection_limit": 4, "expires": "7d", "access_rules": rules}
    auth = {"basic_auth_realm": "Staff", "basic_auth_users": {"anna": "$2y$12$" + "a" * 53}}
    proxy = {"handler": "proxy", "upstream": "app", "upstream_tls": True, "proxy_uri": "/v1/", "websocket": True}
    proxy |= {"request_headers": [{"name": "X-B", "value": "c"}], "connect_timeout_s": 3, "read_timeout_s": 8}
    php = {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": "php", "split_path_info": True}
    moved = {"match": "=", "pattern": "/old", "handler": "return", "return_code": 301, "return_value": "/new"}
    raw = {"pattern": "/f/", "alias": "/srv/www/shop/f/", "snippets": {"nginx": "expires 1h;", "apache": "# kept"}}
    block = {"root": "/srv/www/shop", "access_log": "/var/log/nginx/a.log", "access_log_format": "json", "brotli": "on"}
    block |= {"error_log": "/var/log/nginx/e.log", "error_log_level": "warn", "gzip_types": ["text/css"]}
    block |= {"client_max_header_kb": 16, "redirect_to_https": True, "hsts_max_age_s": 60, "certificate": "shop"}
    block |= {"client_verify": "optional", "client_ca": CLIENTS.pem, "client_crl": CLIENTS.crl()}
    block |= {"client_verify_depth": 2}
    block |= {"error_pages": [{"codes": [404], "uri": "/404.html", "response": 200}], "snippets": {"nginx": "# all"}}
    listen = {"port": 443, "address": "127.0.0.1", "tls": True, "http2": True, "http3": True, "default_server": True}
    server = {"address": "127.0.0.1:9", "weight": 2, "max_fails": 3, "fail_timeout_s": 4, "backup": False, "down": True}
    servers = [server, {"address": "127.0.0.1:8", "backup": True}, {"address": "127.0.0.1:7"}]
    calls = {"pattern": "/c/", "handler": "proxy", "upstream": "app", "upstream_protocol": "grpc"}
    locations = [{"pattern": "/p/", **proxy, **kept}, calls, php, moved, raw]
    locations += [{"pattern": "/x/", "root": "/srv/www/x", **files, **common, **limits, **auth}]
    times = {"connect_timeout_s": 5, "session_timeout_s": 60, "proxy_protocol": True, "allowed": ["192.0.2.0/24"]}
    stream = {"name": "db", "address": "127.0.0.1", "port": 5432, "upstream": "app"}
    ca = "/etc/ssl/certs/ca-certificates.crt"
    tls = {"certificate": "shop", "upstream_tls": True, "upstream_tls_name": "db.example", "upstream_tls_ca": ca}
    routes = [{"name": "*.db.example", "upstream": "app"}]
    return {
        "cache_mb": 7,
        "stream_servers": [
            {**stream, **times, **tls},
            {**stream, "name": "dns", "protocol": "udp"},
            {**stream, "name": "names", "port": 5433, "routes": routes},
        ],
        "upstreams": [{"name": "app", "balancing": "least_conn", "keepalive": 3, "servers": servers}],
        "php_pools": [{"name": "php", "address": "127.0.0.1:9000", "settings": {"memory_limit": "1M"}}],
        "blocks": [
            {"listens": [{"port": 80}, listen], "names": ["shop.example", "*.shop.example"]}
            | {**block, **files, **common, "locations": locations}
        ],
    }


CLIENTS = Authority("Clients")


def _said(value: Any) -> Iterator[tuple[str, str]]:
    """(kind, member) of every dataclass below `value` whose member is not as by default."""
    if isinstance(value, tuple):
        for item in value:
            yield from _said(item)
    elif dataclasses.is_dataclass(value):
        for item in dataclasses.fields(value):
            if getattr(value, item.name) != item.default:
                yield type(value).__name__, item.name
            yield from _said(getattr(value, item.name))


def test_draft_reset_restores_every_field(people: Cast) -> None:
    people.nginx.modules = ["ngx_stream_module"]
    people.nginx.save()
    site, data = shop(people), _everything(people)
    websites.certificate_self_sign(actor=people.owner, team=people.team, name="shop", names=["shop.example"])
    empty = websites.site_export(site)
    websites.site_define(actor=people.admin, site=site, data=data)
    # Kept beside the definition, as is a maintenance.
    Site.objects.update(answers_challenges=True, tls_challenge_port=443)
    Maintenance.objects.create(site=site, text="Soon", allowed=["192.0.2.1"])
    site.refresh_from_db()
    before = freeze.site_spec(site, people.nginx)
    kinds = {kind for kind, _member in _said(before)}
    members = {(kind, item.name) for kind in kinds for item in dataclasses.fields(getattr(spec, kind))}
    assert members == set(_said(before)), "one member is at its default: this would not show that it is lost"
    (row,) = revisions_keep(actor=None, sites=frozen_now([(freeze.fetched(site), people.nginx)])).values()
    # all gone but what the revision does not know
    apart = {"snippets": {}, "locations": [{"pattern": "/f/", "snippets": {"apache": "# kept"}}]}
    websites.site_define(actor=people.admin, site=site, data=empty | {"blocks": [{**empty["blocks"][0], **apart}]})
    draft_restore(actor=people.admin, site=Site.objects.get(), revision=Revision.objects.get(pk=row.pk))
    assert freeze.site_spec(site, people.nginx) == before
    texts = {row.engine: row.text for row in site.snippets.filter(location__pattern="/f/")}
    assert texts == {"nginx": "expires 1h;", "apache": "# kept"}
