"""Sites are created and changed: single calls, whole definitions, versions, owners and conflicts."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError

from panel.audit.models import AuditEntry
from panel.core.errors import ApplicationError, Conflict
from panel.hosts.models import Engine
from panel.rendering import spec
from panel.websites import checks, freeze, services
from panel.websites.models import Handler, Listen, Match, RawSnippet, ServerName, Site
from tests.support.cast import Cast


def shop(people: Cast, **values: Any) -> Site:
    given: dict[str, Any] = {
        "actor": people.owner,
        "team": people.team,
        "name": "shop",
        "domains": ["shop.example"],
        "web_server": people.nginx,
        "root": "/srv/www/shop",
    }
    return services.site_create(**(given | values))


def test_site_is_created_by_one_call(people: Cast) -> None:
    site = shop(people)
    frozen = freeze.site_spec(site, people.nginx)
    assert frozen.blocks[0].names == ("shop.example",)
    assert frozen.blocks[0].listens == (spec.Listen(port=80),)
    assert frozen.blocks[0].root == "/srv/www/shop"
    assert checks.site_problems(site, actor=people.owner) == []
    entry = AuditEntry.objects.get(action="site.create")
    assert entry.actor == people.owner
    assert entry.after is not None
    assert entry.after["blocks"][0]["names"] == ["shop.example"]


def test_proxy_site_is_created_by_one_call(people: Cast) -> None:
    frozen = freeze.site_spec(shop(people, root="", upstream="127.0.0.1:3000"), people.nginx)
    assert frozen.upstreams[0].servers == (spec.UpstreamServer(address="127.0.0.1:3000"),)
    assert frozen.blocks[0].locations[0].upstream == "app"


def test_site_with_certificate_redirects_to_tls(people: Cast) -> None:
    certificate = services.certificate_self_sign(
        actor=people.owner, team=people.team, name="shop-2026", names=["shop.example"]
    )
    frozen = freeze.site_spec(shop(people, certificate=certificate), people.nginx)
    assert [(item.port, item.tls) for item in frozen.blocks[0].listens] == [(80, False), (443, True)]
    assert frozen.blocks[0].redirect_to_https
    assert frozen.blocks[0].tls == spec.TlsFiles(
        "shop-2026", "/etc/nginx/paddock/shop/shop-2026.crt", "/etc/nginx/paddock/shop/shop-2026.key"
    )


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"domains": ["test..com"]}, "domains", "two dots in a row"),
        ({"port": 70000}, "port", "65535"),
        ({"root": "/etc"}, "root", "outside the site folders"),
        ({"root": ""}, "root", "or the upstream"),
        ({"root": "", "upstream": "app"}, "upstream", "host:port"),
        ({"name": "Shop One"}, "name", "lowercase letters"),
        ({"health_path": "health"}, "health_path", "starts with /"),
    ],
)
def test_site_errors_appear_at_their_field_and_nothing_is_created(
    people: Cast, values: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        shop(people, **values)
    assert words in " ".join(caught.value.message_dict[field])
    assert not Site.objects.exists()
    assert not AuditEntry.objects.exists()


def test_site_changes_are_forbidden_for_viewers_and_other_teams(people: Cast) -> None:
    for actor in (people.viewer, people.outsider):
        with pytest.raises((PermissionDenied, ValidationError)):
            shop(people, actor=actor)
    site = shop(people)
    for actor in (people.viewer, people.outsider):
        with pytest.raises(PermissionDenied):
            services.site_update(actor=actor, site=site, notes="mine")
        with pytest.raises(PermissionDenied):
            services.block_update(actor=actor, block=site.blocks.get(), autoindex=True)
        with pytest.raises(PermissionDenied):
            services.site_delete(actor=actor, site=site)


def test_concurrent_site_edit_is_rejected(people: Cast) -> None:
    site = shop(people)
    seen = site.row_version
    services.site_update(actor=people.owner, site=site, expected_version=seen, notes="first")
    with pytest.raises(Conflict, match="changed or deleted by someone else"):
        services.site_update(actor=people.owner, site=site, expected_version=seen, notes="second")
    assert Site.objects.get().notes == "first"


def test_site_version_changes_with_its_parts(people: Cast) -> None:
    site = shop(people)
    seen = site.row_version
    services.location_create(actor=people.owner, block=site.blocks.get(), pattern="/x", handler="deny")
    assert Site.objects.get().row_version == seen + 1


def test_duplicate_name_on_same_listen_names_other_site(people: Cast) -> None:
    shop(people)
    with pytest.raises(ValidationError) as caught:
        shop(people, name="shop-2")
    assert "already used by the site shop" in caught.value.message_dict["domains"][0]


def test_second_default_server_on_listen_is_rejected(people: Cast) -> None:
    shop(people, domains=[])
    with pytest.raises(ValidationError, match="already the default server of this"):
        shop(people, name="shop-2", domains=[])


def test_port_used_by_another_web_server_is_rejected(people: Cast) -> None:
    shop(people)
    with pytest.raises(ValidationError, match="is already used by nginx on web-1 for the site shop"):
        shop(people, name="shop-2", domains=["other.example"], web_server=people.apache)
    services.site_enable(actor=people.owner, site=Site.objects.get(), enabled=False)
    shop(people, name="shop-2", domains=["other.example"], web_server=people.apache)


def test_enabling_site_checks_same_rules(people: Cast) -> None:
    site = shop(people)
    copy = services.site_clone(actor=people.owner, site=site, name="copy")
    assert not copy.enabled
    with pytest.raises(ValidationError, match="already used by the site shop"):
        services.site_enable(actor=people.owner, site=copy, enabled=True)
    services.block_update(actor=people.owner, block=copy.blocks.get(), names=["copy.example"])
    services.site_enable(actor=people.owner, site=copy, enabled=True)


def test_clone_for_another_web_server_keeps_names_and_is_enabled(people: Cast) -> None:
    site = shop(people)
    with pytest.raises(ValidationError, match="is already used by nginx on web-1"):
        services.site_clone(actor=people.owner, site=site, name="copy", web_server=people.apache)
    copy = services.site_clone(actor=people.owner, site=site, name="copy", web_server=people.apache, port=8081)
    assert (copy.enabled, copy.web_server) == (True, people.apache)
    assert list(copy.blocks.get().names.values_list("name", flat=True)) == ["shop.example"]
    assert {listen.port for listen in copy.blocks.get().listens.filter(tls=False)} == {8081}


def test_site_definition_round_trips(people: Cast) -> None:
    site = shop(people)
    block = site.blocks.get()
    pool = services.php_pool_create(
        actor=people.owner, site=site, name="php", address="unix:/run/php.sock", settings={"memory_limit": "64M"}
    )
    services.location_create(
        actor=people.owner,
        block=block,
        match=Match.REGEX,
        pattern=r"\.php$",
        handler=Handler.PHP,
        php_pool=pool,
        basic_auth_realm="Staff",
        basic_auth_users={"anna": "$2y$12$" + "a" * 53},
    )
    services.snippet_create(actor=people.admin, site=site, engine=Engine.NGINX, text="# kept", block=block)
    exported = services.site_export(site)
    assert exported["blocks"][0]["locations"][0]["basic_auth_users"] == {"anna": "(secret)"}
    before = freeze.site_spec(site, people.nginx)
    services.site_define(actor=people.owner, site=site, data=exported)
    again = Site.objects.get()
    assert services.site_export(again) == exported
    assert freeze.site_spec(again, people.nginx) == before


def test_definition_errors_name_their_field(people: Cast) -> None:
    data = services.site_export(shop(people)) | {"name": "shop-2"}
    data["blocks"][0]["names"] = ["b.example"]
    data["blocks"][0]["locations"] = [
        {"pattern": "/ok", "handler": "deny"},
        {"pattern": "/a", "handler": "proxy", "upstream": "gone"},
    ]
    with pytest.raises(ValidationError) as caught:
        services.site_define(actor=people.owner, data=data)
    assert list(caught.value.message_dict) == ["blocks/0/locations/1/upstream"]
    data["blocks"][0]["locations"] = [{"pattern": "/a", "colour": "red"}]
    with pytest.raises(ValidationError) as caught:
        services.site_define(actor=people.owner, data=data)
    assert list(caught.value.message_dict) == ["blocks/0/locations/0/colour"]
    assert Site.objects.count() == 1


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"pattern": "/a", "handler": "proxy"}, "upstream"),
        ({"pattern": "/a", "handler": "php"}, "php_pool"),
        ({"pattern": "/a", "handler": "return"}, "return_code"),
        ({"pattern": "/a", "handler": "return", "return_code": 301}, "return_value"),
        ({"pattern": "a", "handler": "deny"}, "pattern"),
        ({"pattern": "(", "match": "~", "handler": "deny"}, "pattern"),
        ({"pattern": "/a", "root": "/srv/www/a", "alias": "/srv/www/b"}, "alias"),
        ({"pattern": "/a", "root": "/srv/www/a\nb"}, "root"),
        ({"pattern": "/a\n}"}, "pattern"),
        ({"pattern": "/a", "try_files": ["$uri", "/$nonsense"]}, "try_files"),
        ({"pattern": "/a", "headers": [{"name": "X", "value": "$$ and $nonsense"}]}, "headers"),
        ({"pattern": "/a", "handler": "return", "return_code": 302, "return_value": "https://$nope/"}, "return_value"),
        ({"pattern": "/a", "basic_auth_realm": "Staff"}, "basic_auth_users"),
    ],
)
def test_locations_are_validated_on_save(people: Cast, values: dict[str, Any], field: str) -> None:
    block = shop(people).blocks.get()
    with pytest.raises(ValidationError) as caught:
        services.location_create(actor=people.owner, block=block, **values)
    assert field in caught.value.message_dict
    assert not block.locations.exists()


def test_upstream_of_another_site_is_rejected(people: Cast) -> None:
    theirs = shop(people, root="", upstream="127.0.0.1:3000").upstreams.get()
    mine = shop(people, name="mine", domains=["mine.example"])
    with pytest.raises(ValidationError, match="belongs to another site"):
        services.location_create(
            actor=people.owner, block=mine.blocks.get(), pattern="/", handler="proxy", upstream=theirs
        )


def test_certificate_of_another_team_is_rejected(people: Cast) -> None:
    theirs = services.certificate_self_sign(
        actor=people.outsider, team=people.other_team, name="theirs", names=["shop.example"]
    )
    block = shop(people).blocks.get()
    with pytest.raises(ValidationError, match="belongs to another team"):
        services.block_update(actor=people.owner, block=block, certificate=theirs)


def test_upstream_in_use_cannot_be_deleted(people: Cast) -> None:
    upstream = shop(people, root="", upstream="127.0.0.1:3000").upstreams.get()
    with pytest.raises(ApplicationError, match="used by the locations /"):
        services.upstream_delete(actor=people.owner, upstream=upstream)
    upstream.refresh_from_db()


def test_locations_are_ordered(people: Cast) -> None:
    block = shop(people).blocks.get()
    rows = [
        services.location_create(actor=people.owner, block=block, match="~", pattern=pattern, handler="deny")
        for pattern in ("a", "b", "c")
    ]
    services.locations_reorder(actor=people.owner, block=block, order=[rows[2].pk, rows[0].pk, rows[1].pk])
    assert [row.pattern for row in block.locations.all()] == ["c", "a", "b"]
    with pytest.raises(ApplicationError, match="each location"):
        services.locations_reorder(actor=people.owner, block=block, order=[rows[0].pk])


def test_regex_groups_can_be_used_in_values(people: Cast) -> None:
    location = services.location_create(
        actor=people.owner,
        block=shop(people).blocks.get(),
        match="~",
        pattern=r"^/(?<user>[a-z]+)/(.*)$",
        handler="return",
        return_code=301,
        return_value="https://$host/u/$user/$2",
    )
    assert location.pk


@pytest.mark.parametrize("text", ["load_module x.so;", "include /etc/passwd;", "gzip on; }", "alias /etc/;"])
def test_dangerous_directives_are_rejected_on_save(people: Cast, text: str) -> None:
    site = shop(people)
    with pytest.raises(ValidationError) as caught:
        services.snippet_create(actor=people.admin, site=site, engine=Engine.NGINX, text=text, block=site.blocks.get())
    assert "text" in caught.value.message_dict
    assert not RawSnippet.objects.exists()


def test_raw_directives_require_administrator_everywhere(people: Cast) -> None:
    site = shop(people)
    with pytest.raises(PermissionDenied):
        services.snippet_create(actor=people.owner, site=site, engine=Engine.NGINX, text="# x", block=site.blocks.get())
    data = services.site_export(site)
    data["blocks"][0]["snippets"] = {"nginx": "# x"}
    with pytest.raises(PermissionDenied):
        services.site_define(actor=people.owner, site=site, data=data)
    assert not RawSnippet.objects.exists()


def test_tls_listen_without_certificate_is_draft_problem(people: Cast) -> None:
    site = shop(people)
    services.block_update(
        actor=people.owner, block=site.blocks.get(), listens=[{"port": 443, "tls": True, "http2": True}]
    )
    assert [problem.where for problem in checks.site_problems(site, actor=people.owner)] == ["blocks/0/certificate"]


def test_http2_without_tls_is_rejected(people: Cast) -> None:
    with pytest.raises(ValidationError, match="HTTP/2 needs TLS"):
        services.block_update(
            actor=people.owner, block=shop(people).blocks.get(), listens=[{"port": 80, "http2": True}]
        )


def test_site_spec_of_fetched_site_needs_no_query(people: Cast, django_assert_num_queries: Any) -> None:
    for index in range(5):
        shop(people, name=f"shop-{index}", domains=[f"s{index}.example"])
    sites = list(freeze.with_parts(Site.objects.all()))
    with django_assert_num_queries(0):
        specs = [freeze.spec_of_fetched(site, people.nginx) for site in sites]
    assert [spec.name for spec in specs] == [f"shop-{index}" for index in range(5)]
    assert all(block.names and block.listens for spec in specs for block in spec.blocks)


def test_fetched_parts_refer_to_their_own_parent(people: Cast) -> None:
    for index in range(2):
        shop(people, name=f"shop-{index}", domains=[f"s{index}.example", f"www{index}.example"])
    first, second = freeze.with_parts(Site.objects.all())
    (block,) = first.blocks.all()
    assert block.site is first
    assert block.names.filter(name="www0.example").count() == 1
    assert [item.name for item in block.names.order_by("-position")] == ["www0.example", "s0.example"]
    assert not block.names.filter(name="s1.example").exists()
    assert second.blocks.get() != block


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("", "127.0.0.1", True),
        ("127.0.0.1", "", True),
        ("", "::", False),
        ("::", "::1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "127.0.0.1", True),
    ],
)
def test_web_servers_share_port_only_on_different_addresses(people: Cast, first: str, second: str, clash: bool) -> None:
    shop(people, address=first)
    other = {"name": "shop-2", "domains": ["other.example"], "web_server": people.apache, "address": second}
    if clash:
        with pytest.raises(ValidationError, match="is already used by nginx on web-1"):
            shop(people, **other)
    else:
        shop(people, **other)


def test_validation_query_count_does_not_grow_with_sites(people: Cast, django_assert_max_num_queries: Any) -> None:
    for index in range(12):
        shop(people, name=f"shop-{index}", domains=[f"s{index}.example", f"www.s{index}.example"])
    site = shop(people)
    with django_assert_max_num_queries(22):
        assert checks.site_problems(site, actor=people.owner) == []


@pytest.mark.parametrize("clash", ["", "name", "default", "tls", "server", "disabled"])
def test_conflicts_are_found_for_many_sites_at_once(people: Cast, clash: str, django_assert_num_queries: Any) -> None:
    """Conflicts are rejected on save, but two simultaneous requests may still create one."""
    first, second = shop(people), shop(people, name="other", domains=["other.example"])
    listens = Listen.objects.filter(block__site__in=[first, second])
    if clash in ("name", "disabled"):
        ServerName.objects.filter(block__site=second).update(name="shop.example")
    elif clash == "default":
        listens.update(default_server=True)
    elif clash == "tls":
        Listen.objects.filter(block__site=second).update(tls=True)
    elif clash == "server":
        Site.objects.filter(pk=second.pk).update(web_server=people.apache)
    if clash == "disabled":
        Site.objects.update(enabled=False)
    with django_assert_num_queries(1):
        suspects = checks.clash_suspects([first, second])
    assert suspects == ({first.pk, second.pk} if clash not in ("", "disabled") else set())
    for site in Site.objects.all():
        assert site.web_server is not None
        assert bool(checks.site_clashes(people.admin, site, site.web_server)) == (site.pk in suspects)


@pytest.mark.parametrize(
    ("protocol", "values", "field"),
    [
        ("grpc", {"proxy_uri": "/v2/"}, "proxy_uri"),
        ("uwsgi", {"proxy_uri": "/v2/"}, "proxy_uri"),
        ("grpc", {"websocket": True}, "websocket"),
        ("uwsgi", {"websocket": True}, "websocket"),
        ("uwsgi", {"upstream_tls": True}, "upstream_tls"),
        ("grpc", {"cache_times": [{"codes": [200], "seconds": 60}]}, "cache_times"),
        ("ftp", {}, "upstream_protocol"),
    ],
)
def test_settings_without_use_for_the_protocol_are_rejected(
    people: Cast, protocol: str, values: dict[str, Any], field: str
) -> None:
    site = shop(people)
    app = services.upstream_create(actor=people.owner, site=site, name="app", servers=[{"address": "127.0.0.1:1"}])
    block = site.blocks.get()
    with pytest.raises(ValidationError) as caught:
        services.location_create(
            actor=people.owner, block=block, pattern="/", handler="proxy", upstream=app, upstream_protocol=protocol,
            **values,
        )  # fmt: skip
    assert list(caught.value.message_dict) == [field]
