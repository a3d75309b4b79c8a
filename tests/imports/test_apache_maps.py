"""Common Apache directives: proxies, redirects, .htaccess files and usual lines."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

import pytest

from panel.imports.mapping import mapped
from panel.imports.reading import Fault, Loader, SourceFile
from panel.imports.report import FoundSite
from panel.rendering.spec import WebServerSpec
from tests.imports.test_cache_and_log_maps import apache, outcomes

OVERRIDE = "<Directory /srv/www/shop>\nAllowOverride All\nRequire all granted\n</Directory>"
PASSED = "ProxyPass http://127.0.0.1:1/app"
WORDPRESS = (
    "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n"
    "RewriteBase /\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n"
    "RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n"
)


def live(inside: str, files: dict[str, str], outside: str = "", faults: Sequence[Fault] = ()) -> FoundSite:
    """A virtual host of /srv/www/shop on a host with these files; `faults`: what the host would not let be read."""

    def find(pattern: str) -> list[SourceFile]:
        names = [name for name in files if fnmatch.fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")]
        return [SourceFile(name, files[name]) for name in sorted(names)]

    text = (
        f"{outside}\n<VirtualHost *:80>\nServerName a.example\nDocumentRoot /srv/www/shop\n{inside}\n</VirtualHost>\n"
    )
    files = {**files, "/etc/apache2/apache2.conf": text}
    loaded = Loader("apache", find, "/etc/apache2", {}, ("/srv/www",)).load("/etc/apache2/apache2.conf")
    assert not loaded.faults
    loaded.faults += faults
    web_server = WebServerSpec("apache", "sites", "/etc/apache2", "/var/log/apache2", site_roots=("/srv/www",))
    (site,) = mapped(loaded, web_server, "/etc/apache2").sites
    return site


def block(site: FoundSite) -> dict[str, Any]:
    found: dict[str, Any] = site.definition["blocks"][0]
    return found


def test_htaccess_files_first_rule_maps_to_site() -> None:
    site = live(OVERRIDE, {"/srv/www/shop/.htaccess": WORDPRESS})
    assert block(site)["try_files"] == ["$uri", "$uri/", "/index.php$is_args$args"]
    assert "snippets" not in block(site) and not site.refused
    (override,) = [item for item in site.items if item.text.startswith("Directory")]
    assert override.outcome == "changed" and "1 found" in override.note
    assert {item.file for item in site.items if item.text.startswith("Rewrite")} == {"/srv/www/shop/.htaccess"}
    assert outcomes(site, "Rewrite") == ["mapped", "changed", *["mapped"] * 5]


def test_missing_scripts_map_to_front_controller() -> None:
    php = '<FilesMatch \\.php$>\nSetHandler "proxy:unix:/run/fpm.sock|fcgi://localhost/"\n</FilesMatch>\n'
    site = live(f"{OVERRIDE}\n{php}", {"/srv/www/shop/.htaccess": WORDPRESS})
    (row,) = block(site)["locations"]
    assert (row["handler"], row["try_files"]) == ("php", ["$uri", "/index.php$is_args$args"])


def test_htaccess_behind_full_redirect_is_ignored() -> None:
    site = live(f"{OVERRIDE}\nRedirect permanent / https://a.example/", {"/srv/www/shop/.htaccess": WORDPRESS})
    assert "snippets" not in block(site) and "try_files" not in block(site)
    assert set(outcomes(site, "Rewrite")) == {"changed"}


def test_unmapped_htaccess_lines_stay_in_directory_section() -> None:
    deny = '<FilesMatch "\\.log$">\nRequire all denied\n</FilesMatch>\n'
    files = {"/srv/www/shop/a/b/.htaccess": f"{deny}Options -Indexes\nAddHandler cgi-script .cgi\n"}
    site = live(OVERRIDE, files)
    (snippet,) = block(site)["snippets"].values()
    assert snippet.startswith("<Directory /srv/www/shop/a/b>") and "Require all denied" in snippet
    assert "AddHandler" not in snippet
    assert [item.text for item in site.refused] == ["AddHandler cgi-script .cgi"]


def test_unmapped_rewrite_rules_stay_per_directory() -> None:
    rules = "RewriteEngine On\nRewriteCond %{HTTP_HOST} ^www\\.\nRewriteRule ^(.*)$ /w/$1 [L]\n"
    site = live(OVERRIDE, {"/srv/www/shop/.htaccess": rules})
    (snippet,) = block(site)["snippets"].values()
    assert snippet.startswith("<Directory /srv/www/shop>") and "RewriteRule ^(.*)$ /w/$1 [L]" in snippet
    assert "try_files" not in block(site) and "rewrites" not in block(site)


@pytest.mark.parametrize(
    ("outside", "inside", "counts"),
    [
        ("<Directory /srv/www/>\nAllowOverride All\n</Directory>", "", True),
        ("<Directory /srv>\nAllowOverride None\n</Directory>", OVERRIDE, True),
        ("<Directory /srv>\nAllowOverride All\n</Directory>", OVERRIDE.replace("Override All", "Override None"), False),
        ("", "", False),
    ],
)
def test_longest_directory_section_decides_allow_override(outside: str, inside: str, counts: bool) -> None:
    site = live(inside, {"/srv/www/shop/.htaccess": WORDPRESS}, outside)
    assert ("try_files" in block(site)) is counts


def test_unreachable_htaccess_files_are_reported() -> None:
    (lost,) = apache(OVERRIDE).refused  # an uploaded folder has none
    assert lost.text.startswith("Directory") and "does not know their content in /srv/www/shop" in lost.note


def test_unreadable_htaccess_files_are_reported() -> None:
    closed = [
        Fault("/srv/www/shop/a", 0, "the agent's account may not read the folder"),
        Fault("/srv/www/shop/b/.htaccess", 0, ""),
    ]
    (lost,) = live(OVERRIDE, {"/srv/www/shop/.htaccess": WORDPRESS}, faults=closed).refused
    assert "Paddock does not know their content in /srv/www/shop" in lost.note
    elsewhere = [Fault("/srv/www/blog/.htaccess", 0, "")]
    assert not live(OVERRIDE, {"/srv/www/shop/.htaccess": WORDPRESS}, faults=elsewhere).refused


CGI = """\
ScriptAlias /cgi-bin/ /usr/lib/cgi-bin/
<Directory /srv/www/shop>
    Options +Indexes +ExecCGI
    AddHandler cgi-script .cgi .pl
    Require all granted
</Directory>
<Files "*.sh">
    SetHandler cgi-script
</Files>
<Directory /usr/lib/cgi-bin>
    Options ExecCGI
    Require ip 10.0.0.0/8
</Directory>"""


def test_cgi_directives_are_reported_and_neighbors_kept() -> None:
    site = live(CGI, {})
    first = 4  # the lines before
    lost = {item.line - first: item for item in site.refused}
    assert [lost[line].text.split()[0] for line in sorted(lost)] == [
        "ScriptAlias", "Options", "AddHandler", "SetHandler", "Directory", "Options",
    ]  # fmt: skip
    assert all(item.file == "/etc/apache2/apache2.conf" for item in lost.values())
    assert lost[1].note.startswith("Paddock does not import CGI") and "404" in lost[1].note
    assert lost[4].note.startswith("Paddock does not import CGI") and "would send the source of scripts" in lost[4].note
    assert block(site)["autoindex"] is True, "the rest of its section holds"
    assert "cgi" not in str(block(site)).lower()


STATIC = "Alias /static/ /srv/www/shop/static/\n"
YEAR = 'ExpiresActive On\nExpiresDefault "access plus 1 year"\n'


@pytest.mark.parametrize(
    ("text", "expires", "rest"),
    [
        (f"<Directory /srv/www/shop/static>\n{YEAR}</Directory>", "365d", []),
        (f"<Location /static>\n{YEAR}</Location>", "365d", []),
        (f"<Location /static/>\n{YEAR.replace('access plus 1 year', 'A5400')}</Location>", "90m", []),
        (
            f"<Directory /srv/www/shop/static>\nRequire all granted\n"
            f"{YEAR.replace('access plus 1 year', 'now plus 1 week 2 hours')}</Directory>",
            "170h",
            ["snippet"],
        ),
    ],
)
def test_expires_of_directory_maps_to_location(text: str, expires: str, rest: list[str]) -> None:
    site = live(STATIC + text, {})
    (row,) = block(site)["locations"]
    assert row["expires"] == expires
    assert outcomes(site, "ExpiresActive", "ExpiresDefault") == ["mapped", "mapped"]
    assert outcomes(site, "Directory", "Location") == rest
    assert "Expires" not in str(block(site).get("snippets", ""))


@pytest.mark.parametrize(
    "text",
    [
        YEAR,
        'ExpiresActive On\nExpiresByType text/css "access plus 1 year"\n',
        f'<Location /static>\n{YEAR}ExpiresByType text/css "access plus 1 month"\n</Location>',
        f"<Location /other>\n{YEAR}</Location>",
        '<Location /static>\nExpiresActive On\nExpiresDefault "access plus 3 fortnights"\n</Location>',
        '<Location /static>\nExpiresDefault "access plus 1 year"\n</Location>',
        '<Location /static>\nExpiresActive On\nExpiresDefault "modification plus 1 year"\n</Location>',
    ],
)
def test_unmapped_expires_stay_raw(text: str) -> None:
    site = live(STATIC + text, {})
    assert not site.refused and "Expires" in block(site)["snippets"]["apache"]
    assert all("expires" not in row for row in block(site)["locations"])
    of_lines = [item.note for item in site.items if item.text.startswith("Expires")]
    assert all("sites set expiry times per location" in note for note in of_lines)


def test_proxied_segment_maps_to_two_locations() -> None:
    site = apache("ProxyPreserveHost On\nProxyPass /api http://127.0.0.1:8123/api\nProxyPass /x http://127.0.0.1:8123")
    assert [(row["match"], row["pattern"], row["proxy_uri"]) for row in block(site)["locations"]] == [
        ("=", "/api", ""), ("", "/api/", ""), ("=", "/x", "/"), ("", "/x/", "/"),
    ]  # fmt: skip
    assert outcomes(site, "ProxyPass ") == ["mapped", "mapped"]
    assert outcomes(apache("ProxyPass / http://127.0.0.1:3000"), "ProxyPass") == [
        "refused"
    ]  # Apache answers it with 500


def test_proxy_exclusion_maps_to_static_location() -> None:
    site = apache("ProxyPreserveHost On\nProxyPass /static !\nProxyPass / http://127.0.0.1:3000/")
    found = [(row["match"], row["pattern"], row["handler"]) for row in block(site)["locations"]]
    assert found == [("=", "/static", "static"), ("", "/static/", "static"), ("", "/", "proxy")]
    assert outcomes(site, "ProxyPass ") == ["mapped", "mapped"]


def test_websocket_rule_beside_full_proxy_is_mapped() -> None:
    rules = (
        "ProxyPreserveHost On\nRewriteEngine On\nRewriteCond %{HTTP:Upgrade} websocket [NC]\n"
        "RewriteCond %{HTTP:Connection} upgrade [NC]\nRewriteRule ^/?(.*) ws://127.0.0.1:3000/$1 [P,L]\n"
        "ProxyPass / http://127.0.0.1:3000/ timeout=90 retry=5 max=3\n"
    )
    site = apache(rules)
    (row,) = block(site)["locations"]
    assert (row["websocket"], row["read_timeout_s"]) == (True, 90)
    assert site.definition["upstreams"][0]["servers"] == [{"address": "127.0.0.1:3000", "fail_timeout_s": 5}]
    assert set(outcomes(site, "Rewrite")) == {"mapped"}
    (passed,) = [item for item in site.items if item.text.startswith("ProxyPass ")]
    assert passed.note == "Paddock does not import max=3"
    assert set(outcomes(apache(rules.replace("ws://127.0.0.1:3000", "ws://127.0.0.1:9")), "Rewrite")) == {
        "snippet",
        "refused",
    }


def test_redirect_directives_map_to_rewrites() -> None:
    site = apache(
        "Redirect permanent /old https://b.example/new\nRedirect /a/ /b/\nRedirectMatch 301 ^/$ /start\n"
        "RedirectMatch 404 \\.git\nRedirect gone /x\n"
    )
    assert block(site)["rewrites"] == [
        {"pattern": "^/old(|/.*)$", "replacement": "https://b.example/new$1", "flag": "permanent"},
        {"pattern": "^/a/(.*)$", "replacement": "/b/$1", "flag": "redirect"},
        {"pattern": "^/$", "replacement": "/start", "flag": "permanent"},
    ]
    assert outcomes(site, "Redirect") == ["mapped"] * 3 + ["snippet"] * 2
    assert outcomes(apache("Redirect /a /b\nProxyPass /c/ http://127.0.0.1:1/c/"), "Redirect") == ["snippet"]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("ProxyRequests Off", "mapped"),
        ("ProxyRequests On", "refused"),
        ("UseCanonicalName Off", "mapped"),
        ("UseCanonicalName On", "snippet"),
        ("ServerAdmin webmaster@localhost", "changed"),
        ("ServerAdmin anna@b.example", "snippet"),
        ("AddOutputFilterByType DEFLATE text/html text/css", "mapped"),
        ("AddOutputFilterByType DEFLATE text/css", "snippet"),
        ("AuthUserFile /etc/server/.htpasswd", "snippet"),
        ("AuthUserFile /etc/shadow", "refused"),
        (f"<Location /app>\n{PASSED}\nProxyPassReverse http://127.0.0.1:1/app\n</Location>", "mapped"),
        (f"<Location /app>\n{PASSED}\nRequire ip 10.0.0.0/8\n</Location>", "refused"),
    ],
)
def test_common_apache_lines_are_mapped(text: str, outcome: str) -> None:
    assert outcomes(apache(text), text.split()[0].strip("<"))[-1:] == [outcome]


def test_server_port_condition_other_than_443_is_mapped() -> None:
    rules = "RewriteEngine on\nRewriteCond %{SERVER_PORT} !^443$\nRewriteRule ^/(.*) https://%{HTTP_HOST}/$1 [NC,R,L]"
    (row,) = block(apache(rules))["locations"]
    assert (row["handler"], row["return_value"]) == ("return", "https://$host$request_uri")
