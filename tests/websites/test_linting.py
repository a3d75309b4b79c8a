"""Warnings about drafts, and their fixes, through services, pages and API."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.test import Client

from panel.core.errors import ApplicationError
from panel.hosts.models import Host, WebServer
from panel.rendering import render
from panel.rendering.lint import Finding
from panel.websites import linting
from panel.websites.freeze import site_spec
from panel.websites.models import RawSnippet, Site
from panel.websites.services import site_define, site_export
from panel.websites.web_server_specs import web_server_spec
from tests.api.caller import caller_of
from tests.suites.conformance.selftest import configtest
from tests.support.cast import Cast, signed_in
from tests.support.ports import free_port

PHP = {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": "php"}


def block(**members: Any) -> dict[str, Any]:
    """Nothing is found in it by itself."""
    base = {"listens": [{"port": 80, "default_server": True}], "names": ["shop.example"], "root": "/srv/www/shop"}
    return base | members


def site(people: Cast, **members: Any) -> Site:
    data = {
        "name": "shop",
        "team": people.team.slug,
        "web_server": people.nginx.pk,
        "php_pools": [{"name": "php", "address": "127.0.0.1:9000"}],
        "upstreams": [{"name": "app", "servers": [{"address": "127.0.0.1:50051"}]}],
        "blocks": [block(**members)],
    }
    return site_define(actor=people.admin, data=data)


def codes(found: list[Finding]) -> list[tuple[str, str]]:
    return [(item.code, item.where) for item in found]


def located(**members: Any) -> dict[str, Any]:
    return {"locations": [{"pattern": "/", **members}]}


def raw_of(engine: str, text: str) -> dict[str, Any]:
    return {"locations": [{"pattern": "/x/", "snippets": {engine: text}}]}


def raw(text: str, **members: Any) -> dict[str, Any]:
    return raw_of("nginx", text) | members


L0 = "blocks/0/locations/0"
KEPT = {**PHP, "cache_times": [{"codes": [200], "seconds": 60}]}
USERS = {"anna": "$2y$12$" + "a" * 53}
OFFICE, NOBODY = {"action": "allow", "source": "10.0.0.0/8"}, {"action": "deny", "source": "all"}
FIXED = {"handler": "return", "return_code": 200, "return_value": "secret"}
HEADERS = [{"name": "X-Frame-Options", "value": "DENY"}]
TO_INDEX = "if (!-e $request_filename) { rewrite ^ /index.php last; }"
MISTAKES: list[tuple[str, str, dict[str, Any]]] = [
    ("no-default-server", "blocks/0/listens/0", {"listens": [{"port": 80}]}),
    ("alias-traversal", L0, located(pattern="/files", alias="/srv/www/files/")),
    ("alias-traversal", L0, located(match="^~", pattern="/files", alias="/srv/www/files/")),
    ("try-files-slash", L0, located(try_files=["$uri", "=404"])),
    ("try-files-slash", "blocks/0", {"try_files": ["$uri", "=404"]}),
    ("php-in-uploads", "blocks/0/locations/1", {"locations": [PHP, {"pattern": "/wp-content/uploads/"}]}),
    ("host-redirect", "blocks/0", {"rewrites": [{"pattern": "^/a$", "replacement": "https://$host/b", "flag": ""}]}),
    (
        "response-splitting",
        "blocks/0",
        {"rewrites": [{"pattern": "^", "replacement": "https://new.example$uri", "flag": ""}]},
    ),
    ("host-redirect", L0, located(rewrites=[{"pattern": "^/", "replacement": "$scheme://$http_host/b", "flag": ""}])),
    ("host-redirect", L0, located(handler="return", return_code=301, return_value="https://$host$request_uri")),
    ("host-redirect", L0, located(handler="return", return_code=302, return_value="$scheme://${http_host}/x")),
    ("response-splitting", L0, located(handler="return", return_code=301, return_value="https://new.example$uri")),
    (
        "response-splitting",
        L0,
        located(handler="return", return_code=302, return_value="https://new.example$uri$is_args$args"),
    ),
    ("response-splitting", L0, located(headers=[{"name": "X-Path", "value": "$uri"}])),
    ("response-splitting", "blocks/0", {"headers": [{"name": "X-Path", "value": "a$uri"}]}),
    ("headers-lost", L0, raw("add_header X-Own 1;", headers=HEADERS)),
    ("weak-tls", "blocks/0", {"snippets": {"nginx": "# old\nssl_protocols TLSv1 TLSv1.2;\nexpires 1h;"}}),
    ("weak-tls", "blocks/0", {"snippets": {"nginx": "ssl_ciphers HIGH:RC4-SHA:!aNULL;"}}),
    ("if-misuse", L0, raw(TO_INDEX)),
    ("cache-key", L0, located(**KEPT, cache_key="$uri")),
    ("cache-key", L0, located(**KEPT, cache_key="$host")),
    ("allow-without-deny", L0, located(access_rules=[OFFICE])),
    ("return-ignores-access", L0, located(**FIXED, access_rules=[OFFICE, NOBODY])),
    ("return-ignores-access", L0, located(**FIXED, basic_auth_realm="Staff", basic_auth_users=USERS)),
    ("php-unanchored", L0, located(**PHP | {"pattern": r"\.php"})),
    ("php-unanchored", L0, located(**PHP | {"match": "~*", "pattern": r"^/app/.+\.php"})),
    ("status-exposed", L0, raw("stub_status;")),
]
ONLY_A_PERSON = [
    ("name-at-start", L0, raw("proxy_pass http://api.example.com:3000;")),
    ("no-certificate", "blocks/0", {"listens": [{"port": 443, "tls": True, "default_server": True}]}),
    ("grpc-http2", L0, located(handler="proxy", upstream="app", upstream_protocol="grpc")),
    ("if-misuse", L0, raw('if ($http_x = "1") { add_header X-A 1; }')),
    (
        "response-splitting",
        L0,
        located(match="~", pattern="^/a/([^/]+)$", handler="return", return_code=301, return_value="/b/$1"),
    ),
    ("host-redirect", L0, located(handler="return", return_code=301, return_value="https://$host/") | {"names": []}),
    ("weak-tls", "blocks/0", {"snippets": {"nginx": "ssl_protocols TLSv1; expires 1h;"}}),
    ("slow-expression", L0, located(match="~", pattern="^/(?:a+)+$")),
    ("slow-expression", L0, located(match="~", pattern=r"^/(?<name>(\w+\s?)*)\.html$")),
    ("slow-expression", L0, located(rewrites=[{"pattern": "^/x(.*)*$", "replacement": "/y", "flag": "last"}])),
    ("slow-expression", "blocks/0", {"names": [r"~^(?:[a-z]*-?)*\.shop\.example$"]}),
]
FINE: list[dict[str, Any]] = [
    {},
    {"rewrites": [{"pattern": "^/a/(.*)$", "replacement": "https://shop.example/$1", "flag": ""}]},
    {"rewrites": [{"pattern": "^/a$", "replacement": "/b?was=$uri", "flag": "last"}]},
    located(**KEPT),
    located(**KEPT, cache_key="$host$uri$cookie_language"),
    located(pattern="/files/", alias="/srv/www/files/"),
    located(match="=", pattern="/file", alias="/srv/www/files/"),
    located(try_files=["$uri", "$uri/", "=404"]),
    located(try_files=["$uri", "/index.html"]),
    located(match="~", pattern=r"\.css$", try_files=["$uri", "=404"]),
    {"locations": [PHP, {"match": "^~", "pattern": "/uploads/"}]},
    {"locations": [{"pattern": "/uploads/"}]},
    {"listens": [{"port": 80, "default_server": True}]}
    | located(handler="return", return_code=301, return_value="https://shop.example$request_uri"),
    located(match="~", pattern="^/a/(.*)$", handler="return", return_code=301, return_value="/b/$1"),
    located(handler="return", return_code=200, return_value="$uri"),
    raw("add_header X-Own 1;"),
    {"snippets": {"nginx": "ssl_protocols TLSv1.2 TLSv1.3;"}},
    {"snippets": {"nginx": "ssl_ciphers HIGH:!aNULL:!MD5;"}},
    raw("proxy_pass http://127.0.0.1:3000;"),
    raw("proxy_pass http://localhost:3000;"),
    raw("if ($request_method = POST) { return 405; }"),
    located(access_rules=[OFFICE, NOBODY]),
    located(access_rules=[{"action": "deny", "source": "10.1.2.3"}]),
    located(access_rules=[{"action": "allow", "source": "all"}]),
    located(**FIXED),
    located(**PHP),
    located(**PHP | {"pattern": r"\.php(?:/|$)"}),
    located(match="~", pattern=r"^/(?:[^/]+/)*x$"),
    located(match="~", pattern=r"^/(a|b)+(?:c+d)*$"),
    raw("stub_status;\nallow 127.0.0.1;\ndeny all;"),
]


def refusal(made: Site, web_server: WebServer, folder: Path) -> str:
    """What the real server's own test says against the site; "" where it takes it."""
    texts = [
        file.text
        for file in render(site_spec(made, web_server), web_server_spec(web_server))
        if file.path[-5:] == ".conf"
    ]
    assert texts
    # The test opens ports; below these folders nothing is there, and nothing may be made.
    own = [text.replace("listen 80", f"listen {free_port()}") for text in texts]
    status, said, _which = configtest(str(web_server.engine), folder, [(made.name, own)])
    return said if status else ""


@pytest.mark.parametrize(("code", "where", "members"), MISTAKES, ids=str)
def test_warning_is_found_and_fixed_by_one_action(
    people: Cast, tmp_path: Path, code: str, where: str, members: dict[str, Any]
) -> None:
    made = site(people, **members)
    assert codes(linting.site_findings(made)) == [(code, where)]
    fixed, finding = linting.finding_fix(actor=people.admin, site=made, code=code, where=where)
    assert finding.fix and finding.why
    assert codes(linting.site_findings(fixed)) == []
    assert not refusal(fixed, people.nginx, tmp_path)


@pytest.mark.parametrize(("code", "where", "members"), ONLY_A_PERSON, ids=str)
def test_warning_offers_no_fix_when_person_must_decide(
    people: Cast, code: str, where: str, members: dict[str, Any]
) -> None:
    made = site(people, **members)
    before = site_export(made)
    assert (code, where) in codes(linting.site_findings(made))
    with pytest.raises(ApplicationError, match="Change the setting in the editor"):
        linting.finding_fix(actor=people.admin, site=made, code=code, where=where)
    assert site_export(made) == before


@pytest.mark.parametrize("members", FINE, ids=str)
def test_correct_configuration_has_no_warnings(people: Cast, members: dict[str, Any]) -> None:
    assert codes(linting.site_findings(site(people, **members))) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SSLProtocol all -SSLv3", "weak-tls"),
        ("SSLCipherSuite HIGH:3DES", "weak-tls"),
        ("SSLProtocol all -SSLv3 -TLSv1 -TLSv1.1", None),
        ("SSLProtocol -all +TLSv1.3", None),
        ("RewriteRule ^/p/(.*)$ /q/$1 [PT]", None),
    ],
)
def test_apache_raw_directives_are_read_by_apache_grammar(
    people: Cast, tmp_path: Path, text: str, code: str | None
) -> None:
    data = {"name": "shop", "team": people.team.slug, "web_server": people.apache.pk}
    made = site_define(actor=people.admin, data=data | {"blocks": [block(snippets={"apache": text})]})
    found = linting.site_findings(made)
    assert [item.code for item in found] == ([code] if code else [])
    if code:
        linting.finding_fix(actor=people.admin, site=made, code=code, where="blocks/0")
        assert not RawSnippet.objects.exists()
        assert not refusal(Site.objects.get(), people.apache, tmp_path)


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("nginx", "proxy_pass http://$http_host$request_uri;"),
        ("nginx", "if ($arg_u) {\n  set $x 1;\n}\nproxy_pass https://$arg_u;"),
        ("apache", "RewriteRule ^/p/(.*)$ http://$1 [P,L]"),
        ("apache", "RewriteRule ^/p/(.*)$ http://%{HTTP_HOST}/$1 [P]"),
    ],
)
def test_open_proxy_is_rejected_and_reported_when_already_stored(people: Cast, engine: str, text: str) -> None:
    web_server = people.nginx if engine == "nginx" else people.apache
    data = {"name": "shop", "team": people.team.slug, "web_server": web_server.pk}
    with pytest.raises(ValidationError):
        site_define(actor=people.admin, data=data | {"blocks": [block(**raw_of(engine, text))]})
    made = site_define(actor=people.admin, data=data | {"blocks": [block(**raw_of(engine, "# later"))]})
    RawSnippet.objects.update(text=text, expanded=text)
    assert codes(linting.site_findings(made)) == [("open-proxy", L0)]
    fixed, _finding = linting.finding_fix(actor=people.admin, site=made, code="open-proxy", where=L0)
    assert codes(linting.site_findings(fixed)) == []


def test_fix_keeps_other_raw_directives(people: Cast) -> None:
    made = site(people, snippets={"nginx": "# old\nssl_protocols TLSv1 TLSv1.2;\nexpires 1h;"})
    linting.finding_fix(actor=people.admin, site=made, code="weak-tls", where="blocks/0")
    assert RawSnippet.objects.get().text == "# old\nexpires 1h;"


def test_default_server_of_another_site_prevents_warning(people: Cast) -> None:
    site(people)
    other = {"name": "blog", "team": people.team.slug, "web_server": people.nginx.pk}
    blog = site_define(
        actor=people.admin, data=other | {"blocks": [block(listens=[{"port": 80}], names=["blog.example"])]}
    )
    assert linting.site_findings(blog) == []


def test_fix_of_raw_directives_requires_administrator(people: Cast) -> None:
    made = site(people, snippets={"nginx": "ssl_protocols TLSv1;"})
    with pytest.raises(PermissionDenied):
        linting.finding_fix(actor=people.owner, site=made, code="weak-tls", where="blocks/0")
    with pytest.raises(PermissionDenied):
        linting.finding_fix(actor=people.viewer, site=made, code="weak-tls", where="blocks/0")
    assert RawSnippet.objects.get().text == "ssl_protocols TLSv1;"


# --- pages and API ---


def text_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def fix(client: Client, code: str, where: str) -> Any:
    return client.post("/sites/shop/fix/", {"code": code, "where": where}, follow=True)


def test_site_page_and_plan_offer_fix(people: Cast) -> None:
    site(people, **located(pattern="/files", alias="/srv/www/files/"))
    owner = signed_in(people.owner)
    assert "Change the location to /files/" in text_of(owner.get("/sites/shop/"))
    plan = text_of(owner.post("/deployments/plan", {"site": "shop"}, follow=True))
    assert "Paddock serves only /files and paths below /files/" in plan and 'action="/sites/shop/fix/"' in plan
    page = text_of(fix(owner, "alias-traversal", L0))
    assert "Fixed in the draft: Change the location to /files/." in page
    assert 'id="findings"' not in page
    assert "no longer has" in text_of(fix(owner, "alias-traversal", L0))


def test_warning_page_offers_only_permitted_fixes(people: Cast) -> None:
    site(people, snippets={"nginx": "ssl_protocols TLSv1;"})
    page = text_of(signed_in(people.owner).get("/sites/shop/"))
    assert "An administrator can fix this" in page and "/fix/" not in page
    assert "/fix/" not in text_of(signed_in(people.viewer).get("/sites/shop/"))
    assert signed_in(people.outsider).post("/sites/shop/fix/").status_code == 404
    assert signed_in(people.viewer).post("/sites/shop/fix/").status_code == 403
    admin = signed_in(people.admin)
    session = admin.session
    session.pop("sudo_at", None)
    session.save()
    answer = admin.post("/sites/shop/fix/", {"code": "weak-tls", "where": "blocks/0"})
    assert answer.headers["Location"].startswith("/confirm/"), "raw directives ask for the password"
    assert RawSnippet.objects.exists()


def test_viewer_is_told_who_can_fix_warning(people: Cast) -> None:
    site(people, **located(pattern="/files", alias="/srv/www/files/"), redirect_to_https=False)
    viewer, owner = signed_in(people.viewer), signed_in(people.owner)
    page = text_of(viewer.get("/sites/shop/"))
    assert "An operator of the team can fix this: Change the location to /files/." in page
    assert "/fix/" not in page and "administrator can" not in page
    Site.objects.get().delete()
    moved = located(handler="return", return_code=301, return_value="https://$host$request_uri")
    site(people, **moved, names=["~^shop"])  # which name to lead to, only a person knows
    assert "An operator of the team can change this." in text_of(viewer.get("/sites/shop/"))
    assert "Open in the editor" in text_of(owner.get("/sites/shop/"))


def test_warnings_are_listed_and_fixed_over_api(people: Cast) -> None:
    site(people, **located(try_files=["$uri", "=404"]))
    owner = caller_of(people.owner)
    (found,) = owner.get("sites/shop/findings/").json()
    assert (found["code"], found["pointer"], found["fix"]) == (
        "try-files-slash",
        f"/{L0}",
        "Add $uri/ after $uri to try_files",
    )
    wanted = {"code": found["code"], "pointer": found["pointer"]}
    assert caller_of(people.viewer).post("sites/shop/fix/", wanted).status_code == 403
    assert owner.post("sites/shop/fix/?dry_run=true", wanted).status_code == 200
    assert len(owner.get("sites/shop/findings/").json()) == 1
    assert owner.post("sites/shop/fix/", wanted).status_code == 200
    assert owner.get("sites/shop/findings/").json() == []
    assert owner.post("sites/shop/fix/", wanted).status_code == 422


def test_default_server_in_host_files_prevents_warning(people: Cast) -> None:
    """Debian's nginx has one; a second default server would be rejected."""
    shop = site(people, listens=[{"port": 80}, {"port": 80, "address": "::"}, {"port": 8080}])
    assert [code for code, _where in codes(linting.site_findings(shop))] == ["no-default-server"] * 3
    main = people.nginx.paths["main_config"]
    found = [{"main_config": main, "path": "/etc/nginx/sites-enabled/default", "listen": "80"}]
    found += [{**found[0], "listen": "[::]:80"}, {**found[0], "listen": "unix:/run/nginx.sock"}]
    found.append({**found[0], "listen": "8080", "main_config": "/opt/other/nginx.conf"})
    Host.objects.filter(pk=people.nginx.host_id).update(facts={"default_servers": found})
    assert [finding.where for finding in linting.site_findings(Site.objects.get())] == ["blocks/0/listens/2"]


def test_debian_apache_default_server_prevents_warning(people: Cast) -> None:
    data = site_export(site(people)) | {"web_server": people.apache.pk}
    data["blocks"][0]["listens"] = [{"port": 80}, {"port": 81}]
    site_define(actor=people.admin, data=data, site=Site.objects.get())
    found = {"main_config": people.apache.paths["main_config"], "path": "/etc/apache2/sites-enabled/000-default.conf"}
    facts = {"default_servers": [{**found, "listen": "80"}, {**found, "listen": "[::]:80"}]}
    Host.objects.filter(pk=people.apache.host_id).update(facts=facts)
    told = caller_of(people.owner).get("sites/shop/findings/").json()  # type: ignore[attr-defined]
    assert [item["pointer"] for item in told if item["code"] == "no-default-server"] == ["/blocks/0/listens/1"]


def test_missing_default_server_is_reported_once_per_port(people: Cast) -> None:
    data = site_export(site(people, listens=[{"port": 80}]))
    data["blocks"].append(block(listens=[{"port": 80}], names=["www.shop.example"]))
    shop = site_define(actor=people.admin, data=data, site=Site.objects.get())
    assert [finding.where for finding in linting.site_findings(shop)] == ["blocks/0/listens/0"]


def test_fix_and_definition_restore_keep_unchanged_rows(people: Cast) -> None:
    """Links to a server block's page, its ETag and its audit entries stay valid."""
    found = site(
        people,
        locations=[PHP, {"pattern": "/wp-content/uploads/"}, {"pattern": "/x/", "snippets": {"nginx": "expires 1d;"}}],
    )
    block_before = found.blocks.get()
    php, uploads, x = block_before.locations.all()
    snippet = RawSnippet.objects.get()
    linting.finding_fix(actor=people.owner, site=found, code="php-in-uploads", where="blocks/0/locations/1")
    assert found.blocks.get() == block_before
    after = list(found.blocks.get().locations.all())
    assert {php.pk, uploads.pk, x.pk} < {row.pk for row in after} and len(after) == 4
    assert next(row for row in after if row == php).row_version == php.row_version
    assert (RawSnippet.objects.get(), RawSnippet.objects.get().location_id) == (snippet, x.pk)

    caller = caller_of(people.owner)
    data = json.loads(caller.get("sites/shop/definition/").content)
    del data["blocks"][0]["locations"][0]  # the others move up
    data["blocks"][0]["names"].append("www.shop.example")
    assert caller.put("sites/shop/definition/", data).status_code == 200
    block_after = found.blocks.get()
    assert block_after == block_before and block_after.row_version > block_before.row_version
    assert [row.pk for row in block_after.locations.all()] == [row.pk for row in after[1:]]


@pytest.mark.parametrize("engine", ["nginx", "apache"])
def test_names_that_must_resolve_at_start_are_found_where_server_needs_them(people: Cast, engine: str) -> None:
    made = site_define(
        actor=people.admin,
        data={
            "name": "shop",
            "team": people.team.slug,
            "web_server": (people.nginx if engine == "nginx" else people.apache).pk,
            "upstreams": [
                {"name": "app", "servers": [{"address": "127.0.0.1:3000"}, {"address": "app.internal:3000"}]},
                {"name": "own", "servers": [{"address": "localhost:3000"}, {"address": "unix:/run/app.sock"}]},
            ],
            "php_pools": [{"name": "php", "address": "php.internal:9000"}],
            "blocks": [block()],
        },
    )
    found = [item for item in linting.site_findings(made) if item.code == "name-at-start"]
    places = ["upstreams/0/servers/1", "php_pools/0"] if engine == "nginx" else []
    assert [item.where for item in found] == places
    assert all("/etc/hosts" in item.why for item in found)


def test_nginx_does_not_start_without_name_that_warning_is_about(people: Cast, tmp_path: Path) -> None:
    made = site(people, **raw("proxy_pass http://name-of-nobody.invalid:3000;"))
    assert "host not found in upstream" in refusal(made, people.nginx, tmp_path)
