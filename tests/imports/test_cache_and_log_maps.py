"""Caches, log formats and Apache's rewrite rules are mapped where the model means the same, else kept raw."""

from __future__ import annotations

import pytest

from panel.imports.mapping import mapped
from panel.imports.reading import Loader, SourceFile
from panel.imports.report import FoundSite
from panel.rendering.logformats import NGINX
from panel.rendering.spec import WebServerSpec

HTTP = """
proxy_cache_path /var/cache/nginx/shop keys_zone=shop:10m max_size=2g;
log_format timed '%s';
log_format odd '$remote_addr $upstream_addr';
upstream app { server 127.0.0.1:9000; }
server {
    listen 80;
    server_name shop.example;
    %s
}
"""


def nginx(inside: str) -> FoundSite:
    return _site("nginx", HTTP % (NGINX["timed"], inside), "sites")


def apache(inside: str, port: int = 80) -> FoundSite:
    text = f"<VirtualHost *:{port}>\nServerName shop.example\nDocumentRoot /srv/www/shop\n{inside}\n</VirtualHost>\n"
    return _site("apache", text, "sites")


def _site(engine: str, text: str, layout: str) -> FoundSite:
    web_server = WebServerSpec(engine, layout, "/etc/server", "/var/log/server", site_roots=("/srv/www",))  # type: ignore[arg-type]
    loaded = Loader(engine, lambda _pattern: [], "/etc/server").load_file(SourceFile("/etc/server/site.conf", text))
    assert not loaded.faults
    (site,) = mapped(loaded, web_server, "/etc/server").sites
    return site


def outcomes(site: FoundSite, *beginnings: str) -> list[str]:
    """What became of the directives that begin so."""
    return [item.outcome for word in beginnings for item in site.items if item.text.startswith(word)]


CACHE = """location / {
    proxy_pass http://app;
    proxy_cache shop;
    proxy_cache_key $scheme$host$request_uri;
    proxy_cache_valid 200 301 10m;
    proxy_cache_valid 404 1m;
    proxy_cache_use_stale error timeout updating http_500 http_502 http_503 http_504;
    proxy_cache_bypass $http_authorization $cookie_session $is_args;
    proxy_no_cache $http_authorization $cookie_session $is_args;
}"""


def test_proxy_cache_is_mapped() -> None:
    site = nginx(CACHE)
    (row,) = site.definition["blocks"][0]["locations"]
    assert row["cache_times"] == [{"codes": [200, 301], "seconds": 600}, {"codes": [404], "seconds": 60}]
    assert (row["cache_skip_cookies"], row["cache_skip_queries"]) == (["session"], True)
    assert (row["cache_stale"], row["cache_key"]) == (True, "")
    assert site.definition["cache_mb"] == 2048
    assert "snippets" not in row
    assert outcomes(site, "proxy_cache shop", "proxy_cache_valid", "proxy_cache_bypass") == [
        "mapped", "mapped", "mapped", "changed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "otherwise"),
    [
        ("proxy_no_cache $http_authorization $cookie_session $is_args;", "proxy_no_cache $cookie_session;"),
        ("proxy_cache_valid 404 1m;", "proxy_cache_valid any 1m;"),
        ("$cookie_session $is_args", "$http_x_skip"),
        ("proxy_cache_key $scheme$host$request_uri;", "proxy_cache_key $host$upstream_addr;"),
    ],
)
def test_unmapped_cache_stays_raw_as_a_whole(said: str, otherwise: str) -> None:
    site = nginx(CACHE.replace(said, otherwise))
    (row,) = site.definition["blocks"][0]["locations"]
    assert row["handler"] == "proxy" and "cache_times" not in row
    assert set(outcomes(site, "proxy_cache", "proxy_no_cache")) <= {"snippet", "refused"}


def test_fastcgi_cache_key_may_start_with_method() -> None:
    site = nginx(
        r"""location ~ \.php$ {
        fastcgi_pass 127.0.0.1:9000;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_cache shop;
        fastcgi_cache_key $request_method$host$request_uri;
        fastcgi_cache_valid 5m;
    }"""
    )
    (row,) = site.definition["blocks"][0]["locations"]
    assert row["cache_times"] == [{"codes": [200, 301, 302], "seconds": 300}]
    assert (row["cache_key"], row["cache_stale"]) == ("$host$request_uri", False)
    (note,) = [item.note for item in site.items if item.text == "fastcgi_cache shop"]
    assert "password" in note


@pytest.mark.parametrize(("name", "known"), [("timed", "timed"), ("combined", ""), ("odd", None)])
def test_log_format_is_recognized_by_content(name: str, known: str | None) -> None:
    site = nginx(f"access_log /var/log/server/shop.log {name};")
    assert site.definition["blocks"][0].get("access_log_format") == known
    assert outcomes(site, "access_log") == ["mapped" if known is not None else "snippet"]


def test_apache_log_format_is_recognized_by_text_or_name() -> None:
    for log in ('"%h %l %u %t \\"%r\\" %>s %b"', "mine"):
        site = apache(f'LogFormat "%h %l %u %t \\"%r\\" %>s %b" mine\nCustomLog /var/log/server/shop.log {log}')
        assert site.definition["blocks"][0]["access_log_format"] == "common"
        assert outcomes(site, "CustomLog") == ["mapped"]
    site = apache('CustomLog /var/log/server/shop.log "%v %h"')
    assert "access_log" not in site.definition["blocks"][0]


def test_rewrite_rules_are_mapped() -> None:
    site = apache(
        "RewriteEngine On\n"
        "RewriteRule ^/old/(.*)$ /new/$1 [R=301,L]\n"
        "RewriteRule ^/shop$ https://%{HTTP_HOST}/all?from=shop [R,L]\n"
        "RewriteRule ^/a/(\\d+)$ /item?id=$1 [NC,QSA,PT]\n"
    )
    assert site.definition["blocks"][0]["rewrites"] == [
        {"pattern": "^/old/(.*)$", "replacement": "/new/$1", "flag": "permanent"},
        {"pattern": "^/shop$", "replacement": "https://$http_host/all?from=shop?", "flag": "redirect"},
        {"pattern": "(?i)^/a/(\\d+)$", "replacement": "/item?id=$1", "flag": "last"},
    ]
    assert outcomes(site, "RewriteEngine", "RewriteRule") == ["mapped"] * 4


@pytest.mark.parametrize(
    "rules",
    [
        "RewriteRule ^/a$ /b [L]",  # a file's name, to Apache
        "RewriteCond %{REQUEST_URI} !^/x\nRewriteRule ^/a$ /b [R,L]",
        "RewriteRule ^/a$ /b [R,L,E=x:1]",
        "RewriteRule ^/a$ - [F]",
        "RewriteRule ^/a(.*)$ /b%{QUERY_STRING} [R,L]",
    ],
)
def test_unmapped_rewrite_rules_stay_raw_together(rules: str) -> None:
    site = apache(f"RewriteEngine On\n{rules}\nRewriteRule ^/old/(.*)$ /new/$1 [R=301,L]")
    assert "rewrites" not in site.definition["blocks"][0]
    assert set(outcomes(site, "Rewrite")) == {"snippet"}


def test_certbot_redirect_maps_to_full_redirect() -> None:
    rules = (
        "RewriteEngine on\n"
        "RewriteCond %{SERVER_NAME} =shop.example [OR]\nRewriteCond %{SERVER_NAME} =www.shop.example\n"
        "RewriteRule ^ https://%{SERVER_NAME}%{REQUEST_URI} [END,NE,R=permanent]"
    )
    site = apache(rules)
    (row,) = site.definition["blocks"][0]["locations"]
    assert (row["return_code"], row["return_value"]) == (301, "https://$host$request_uri")
    assert "snippets" not in site.definition["blocks"][0]
    other = apache("ServerAlias shop.test\n" + rules)  # a name that would not be redirected
    assert other.definition["blocks"][0]["locations"] == []


CACHED = """\
ProxyPass /app/ http://127.0.0.1:9000/app/
CacheRoot /var/cache/mine
CacheEnable disk /app/
CacheIgnoreNoLastMod On
CacheDefaultExpire 600
CacheHeader On
CacheLock On
"""


def test_mod_cache_directives_map_to_location() -> None:
    site = apache(CACHED)
    (row,) = site.definition["blocks"][0]["locations"]
    assert row["cache_times"] == [{"codes": [200, 301, 302], "seconds": 600}]
    assert (row["cache_stale"], row["cache_header"]) == (True, True)
    assert "snippets" not in site.definition["blocks"][0]
    assert outcomes(site, "CacheEnable", "CacheRoot", "CacheIgnore", "CacheDefault") == [
        "changed", "changed", "mapped", "changed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        CACHED.replace("CacheIgnoreNoLastMod On\n", ""),  # only what the application calls fresh is kept
        CACHED.replace("CacheDefaultExpire 600", "CacheDefaultExpire 100000"),  # more than CacheMaxExpire
        CACHED + "CacheMinExpire 700\n",
        CACHED + "CacheDisable /app/me\n",
        CACHED + "CacheIgnoreHeaders Set-Cookie\n",
        CACHED + "CacheEnable disk /other\n",
        CACHED.replace("disk /app/", "disk /app/pages"),
        CACHED + "ProxyPass /other/ http://127.0.0.1:9000/other/\n",
    ],
)
def test_unmapped_apache_caches_stay_raw_as_a_whole(changed: str) -> None:
    site = apache(changed)
    assert all("cache_times" not in row for row in site.definition["blocks"][0]["locations"])
    assert not set(outcomes(site, "Cache")) & {"mapped", "changed"}


def test_alias_of_folder_maps_to_two_locations() -> None:
    site = apache(
        "Alias /docs /srv/www/docs\nAlias /one.txt /srv/www/one.txt\nProxyPass /docs !\nAlias /a/ /srv/www/a\n"
    )
    assert site.definition["blocks"][0]["locations"] == [
        {"match": "", "handler": "static", "pattern": "/docs/", "alias": "/srv/www/docs/"},
        {
            "match": "=",
            "handler": "static",
            "pattern": "/docs",
            "rewrites": [{"pattern": "^/docs$", "replacement": "/docs/", "flag": "permanent"}],
        },
    ]
    assert outcomes(site, "Alias", "ProxyPass") == ["changed", "snippet", "snippet", "mapped"]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("<Directory />\nOptions FollowSymLinks\nAllowOverride None\n</Directory>", "changed"),
        ("<Directory />\nOptions Indexes\n</Directory>", "refused"),
        ("<Directory />\nRequire all granted\n</Directory>", "refused"),
        ("<Directory /srv/www/elsewhere>\nRequire all granted\n</Directory>", "changed"),
        ("<Directory /srv/www/elsewhere>\nRequire all denied\n</Directory>", "snippet"),
        (
            "<Directory /srv/www/elsewhere>\nRequire all granted\n</Directory>\nAlias /x /srv/www/elsewhere/x.txt",
            "snippet",
        ),
        ("<Directory /srv/www/elsewhere>\nRequire all granted\n</Directory>\nAliasMatch ^/x(.*) /srv$1", "snippet"),
        ("<Directory /srv/www/shop/sub>\nOptions Indexes\n</Directory>", "snippet"),
    ],
)
def test_unreachable_directory_section_is_dropped(text: str, outcome: str) -> None:
    assert outcomes(apache(text), "Directory") == [outcome]


def test_conditions_always_true_without_tls_are_dropped() -> None:
    rules = (
        "RewriteEngine on\nRewriteCond %{HTTPS} !=on\nRewriteCond %{HTTPS} !^$\n"
        "RewriteRule ^ https://%{SERVER_NAME}%{REQUEST_URI} [L,NE,R=permanent]"
    )
    (row,) = apache(rules).definition["blocks"][0]["locations"]
    assert (row["return_code"], row["return_value"]) == (301, "https://$host$request_uri")
