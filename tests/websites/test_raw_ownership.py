"""Paths and targets in raw directives belong to teams, like those of a site's settings."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from panel.deployments.planning import services as deployments
from panel.hosts.models import Host, WebServer
from panel.rendering import snippets
from panel.websites import checks, paths, services
from panel.websites.models import Allowance, AllowanceKind, RawSnippet, Site
from tests.support.cast import Cast

LISTED = "ask an administrator to add this service"
PATHS = [
    ("nginx", "root /srv/www/blog-raw;"),
    ("nginx", "if ($request_method = GET) { root /srv/www/blog-raw; }"),
    ("nginx", "auth_basic x;\nauth_basic_user_file /srv/www/blog-raw;"),
    ("nginx", "access_log /srv/www/blog-raw;"),
    ("nginx", "error_log /srv/www/blog-raw warn;"),
    ("nginx", "ssl_dhparam /srv/www/blog-raw;"),
    ("apache", "DocumentRoot /srv/www/blog-raw"),
    ("apache", "Alias /x/ /srv/www/blog-raw/"),
    ("apache", "CustomLog /srv/www/blog-raw combined"),
    ("apache", "ErrorLog /srv/www/blog-raw"),
    ("apache", "AuthUserFile /srv/www/blog-raw"),
    ("openlitespeed", "context /x/ {\n location /srv/www/blog-raw/\n}"),
    ("openlitespeed", "accesslog /srv/www/blog-raw {\n}"),
    ("openlitespeed", "realm x {\n userDB {\n location /srv/www/blog-raw\n }\n}"),
]
# Each with the entry of the list that allows it.
TARGETS = [
    ("nginx", "proxy_pass http://127.0.0.1:3000;", "127.0.0.1:3000"),
    ("nginx", "proxy_pass http://localhost:3000/app/;", "127.0.0.1:3000"),
    ("nginx", "fastcgi_pass unix:/run/php/shop.sock;", "unix:/run/php/shop.sock"),
    ("nginx", "proxy_pass http://unix:/run/php/shop.sock:/x/;", "unix:/run/php/shop.sock"),
    ("apache", "ProxyPass http://127.0.0.1:3000/ timeout=60", "127.0.0.1:3000"),
    ("apache", "ProxyPass unix:/run/php/shop.sock|http://localhost/", "unix:/run/php/shop.sock"),
    ("apache", "SetHandler proxy:unix:/run/php/shop.sock|fcgi://localhost", "unix:/run/php/shop.sock"),
    ("apache", "SetHandler proxy:fcgi://127.0.0.1:9000", "127.0.0.1:9000"),
]


def server(people: Cast, engine: str) -> WebServer:
    row: WebServer = people.apache if engine == "apache" else people.nginx
    return row


def made(people: Cast, name: str, engine: str, team: Any, **values: Any) -> Site:
    port = 8080 if engine == "apache" else 80
    block = {"listens": [{"port": port}], "names": [f"{name}.example"], "root": f"/srv/www/{name}"} | values
    data = {"name": name, "team": team.slug, "web_server": server(people, engine).pk, "blocks": [block]}
    return services.site_define(actor=people.admin, data=data)


def with_location(people: Cast, engine: str, text: str) -> Site:
    location = {"pattern": "/app/", "handler": "static", "snippets": {engine: text}}
    return made(people, "shop", engine, people.team, locations=[location])


def listed(people: Cast, value: str) -> list[Allowance]:
    kind, hosts = AllowanceKind.SERVICE, Host.objects.all()
    return [Allowance.objects.create(kind=kind, value=value, team=people.team, host=host) for host in hosts]


@pytest.mark.parametrize(("engine", "text"), PATHS)
def test_path_in_raw_directives_is_found(engine: str, text: str) -> None:
    found = [item.value.rstrip("/") for item in snippets.named(text, engine) if item.what == "path"]
    assert found == ["/srv/www/blog-raw"]


@pytest.mark.parametrize(("engine", "text"), [row for row in PATHS if row[0] != "openlitespeed"])
def test_path_in_raw_directives_is_rejected_for_other_teams(people: Cast, engine: str, text: str) -> None:
    blog = made(people, "blog", engine, people.other_team)
    services.snippet_create(actor=people.admin, site=blog, engine=engine, text=text, block=blog.blocks.get())
    shop = made(people, "shop", engine, people.team)
    host = server(people, engine).host
    for path in ("/srv/www/blog-raw", "/srv/www/blog-raw/x"):
        assert paths.foreign_paths([path], people.team, host) == {path}
        with pytest.raises(ValidationError, match="files of another team"):
            services.block_update(actor=people.owner, block=shop.blocks.get(), root=path)
    services.block_update(actor=people.owner, block=shop.blocks.get(), root="/srv/www/blog-rawer")


def test_raw_directives_with_another_teams_path_block_operators_plan(people: Cast) -> None:
    made(people, "blog", "nginx", people.other_team)
    shop = with_location(people, "nginx", "root /srv/www/blog;")
    (problem,) = checks.site_problems(shop, actor=people.owner)
    assert problem.where == "blocks/0/locations/0/snippets" and "/srv/www/blog" in problem.message
    with pytest.raises(ValidationError, match="files of another team"):
        deployments.deployment_plan(actor=people.owner, sites=[shop])


def test_rollback_rejects_raw_path_that_now_belongs_to_another_team(people: Cast) -> None:
    shop = with_location(people, "nginx", "root /srv/www/later;")
    (plan,) = deployments.deployment_plan(actor=people.owner, sites=[shop])
    revision = plan.items.get().revision
    assert revision is not None
    RawSnippet.objects.all().delete()
    made(people, "later", "nginx", people.other_team)
    with pytest.raises(ValidationError, match="files of another team"):
        deployments.site_rollback(actor=people.owner, site=shop, revision=revision)


def test_directory_section_around_all_sites_claims_no_path(people: Cast) -> None:
    blog = made(people, "blog", "apache", people.other_team)
    text = "<Directory /srv/www>\nRequire all granted\n</Directory>"
    services.snippet_create(actor=people.admin, site=blog, engine="apache", text=text, block=blog.blocks.get())
    shop = made(people, "shop", "apache", people.team)
    services.block_update(actor=people.owner, block=shop.blocks.get(), root="/srv/www/shop/new")
    assert shop.blocks.get().root == "/srv/www/shop/new"


@pytest.mark.parametrize(("engine", "text", "entry"), TARGETS)
def test_raw_target_is_accepted_while_listed_for_team(people: Cast, engine: str, text: str, entry: str) -> None:
    Allowance.objects.all().delete()
    with pytest.raises(ValidationError, match=LISTED):
        with_location(people, engine, text)
    assert not Site.objects.exists() and not Allowance.objects.exists()
    rows = listed(people, entry)
    shop = with_location(people, engine, text)
    assert checks.site_problems(shop, actor=people.owner) == []
    (plan,) = deployments.deployment_plan(actor=people.owner, sites=[shop])
    revision = plan.items.get().revision
    assert revision is not None
    for row in rows:
        row.delete()
    with pytest.raises(ValidationError, match="ask an administrator to add this service"):
        deployments.deployment_plan(actor=people.owner, sites=[shop])
    with pytest.raises(ValidationError, match="ask an administrator to add this service"):
        deployments.site_rollback(actor=people.owner, site=shop, revision=revision)


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("nginx", "proxy_pass http://127.0.0.1:3001;"),
        ("nginx", "proxy_pass http://0x7f000001:3001;"),
        ("nginx", "fastcgi_pass unix:/run/php/shop.sock/../blog.sock;"),
        ("nginx", "fastcgi_pass unix:/run/php/shop.sock?/../blog.sock;"),
        ("nginx", "fastcgi_pass unix:/run/php/shop.sock|x;"),
        ("nginx", "memcached_pass 127.0.0.1;"),
        ("nginx", "proxy_pass http://unix:/run/php/$arg_x:/;"),
        ("nginx", "proxy_pass http://100.100.100.200/;"),
        ("nginx", "proxy_pass http://[fd00:ec2::254]/;"),
        ("apache", "SetHandler proxy:unix:/run/php/blog.sock|fcgi://localhost"),
        ("apache", "ProxyPass http://127.0.0.1:3001/"),
        ("apache", "ProxyPass http://127.0.0.1:3000/ interpolate"),
    ],
)
def test_unlisted_raw_target_is_rejected_beside_listed_ones(people: Cast, engine: str, text: str) -> None:
    Allowance.objects.all().delete()
    listed(people, "127.0.0.1:3000")
    listed(people, "unix:/run/php/shop.sock")
    with pytest.raises(ValidationError):
        with_location(people, engine, text)
    assert not RawSnippet.objects.exists()
