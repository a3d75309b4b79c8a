"""The outcome of each OpenLiteSpeed and Apache directive: mapped, nearly, raw or lost, shown at its line."""

from __future__ import annotations

from typing import Any

import pytest

from panel.hosts.models import Engine, WebServer
from panel.imports import services
from panel.imports.report import FoundSite, Report
from panel.websites.models import Site
from panel.websites.services import site_export
from tests.support import archives
from tests.support.cast import Cast, cast, web_server

OLS = {
    "lsws/conf/httpd_config.conf": """\
serverName web
extprocessor app {
  type proxy
  address 127.0.0.1:3000
}
extprocessor fpm {
  type fcgi
  address uds://run/php/php8.2-fpm.sock
}
listener Default {
  address *:80
  secure 0
  map shop shop.example, www.shop.example
  map blog *
}
listener Secure {
  address [ANY]:443
  secure 1
  keyFile /etc/tls/shop.key
  certFile /etc/tls/shop.crt
  map shop shop.example, www.shop.example
}
virtualHost shop {
  vhRoot /srv/www/shop
  configFile conf/vhosts/$VH_NAME/vhconf.conf
  enableScript 1
}
virtualHost blog {
  vhRoot /srv/www/blog
  docRoot $VH_ROOT/html/
}
vhTemplate many {
  templateFile conf/templates/many.conf
}
""",
    "lsws/conf/vhosts/shop/vhconf.conf": """\
docRoot $VH_ROOT/html/
index {
  useServer 0
  indexFiles index.php, index.html
}
errorpage 404 {
  url /lost.html
}
scripthandler {
  add fcgi:fpm php
}
context /api/ {
  type proxy
  handler app
}
context /files/ {
  location /srv/www/files/
  allowBrowse 1
}
context /secret/ {
  type null
  allowBrowse 0
}
context /odd {
  type static
}
rewrite {
  enable 1
  rules <<<END_rules
RewriteRule ^/old$ /new [R=301,L]
  END_rules
}
""",
}


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


def read(people: Cast, server: WebServer, files: dict[str, str]) -> Report:
    record = services.import_read_upload(
        actor=people.admin, web_server=server, filename="folder.tar.gz", data=archives.tar(files)
    )
    return services.report_of(record)


def adopted(people: Cast, server: WebServer, files: dict[str, str], *names: str) -> list[dict[str, Any]]:
    data = archives.tar(files)
    record = services.import_read_upload(actor=people.admin, web_server=server, filename="folder.tar.gz", data=data)
    done = services.import_adopt(
        actor=people.admin, record=record, names=names, team=people.team, accept_refused=True, add_folders=True
    )
    return [site_export(site) for site in done.sites]


def outcome(site: FoundSite, text: str) -> tuple[str, str]:
    """What became of the directive that begins so, and its place."""
    (item,) = [item for item in site.items if item.text.startswith(text)]
    return item.outcome, f"{item.file.rpartition('/')[2]}:{item.line}"


def test_openlitespeed_virtual_hosts_are_found_with_their_listeners(people: Cast) -> None:
    report = read(people, web_server(people.host, Engine.OPENLITESPEED, ""), OLS)
    assert [fault.message.rpartition("/")[2] for fault in report.faults] == ["many.conf does not exist"]
    shop, blog = report.sites
    block = shop.definition["blocks"][0]
    assert block["names"] == ["shop.example", "www.shop.example"]
    sockets = [(item["address"], item["port"], item["tls"], item["default_server"]) for item in block["listens"]]
    assert sockets == [("", 80, False, False), ("::", 443, True, False)]
    assert [(item["port"], item["default_server"]) for item in blog.definition["blocks"][0]["listens"]] == [(80, True)]
    assert [item.text for item in report.items if "the template" in item.note] == ["vhtemplate many"]
    assert [(files.certificate, files.key) for files in shop.certificates] == [
        ("/etc/tls/shop.crt", "/etc/tls/shop.key")
    ]


def test_openlitespeed_directives_have_mapping_outcome(people: Cast) -> None:
    shop = read(people, web_server(people.host, Engine.OPENLITESPEED, ""), OLS).sites[0]
    assert outcome(shop, "docroot") == ("mapped", "vhconf.conf:1")
    assert outcome(shop, "context /api/") == ("mapped", "vhconf.conf:12")
    assert outcome(shop, "context /odd") == ("snippet", "vhconf.conf:24")
    assert outcome(shop, "rewrite") == ("mapped", "vhconf.conf:27")
    assert outcome(shop, "enablescript") == ("mapped", "httpd_config.conf:26")


def test_openlitespeed_sites_are_adopted_unchanged(people: Cast) -> None:
    server = web_server(people.host, Engine.OPENLITESPEED, "")
    (shop,) = adopted(people, server, OLS, "shop")
    block = shop["blocks"][0]
    assert (block["root"], block["index"]) == ("/srv/www/shop/html", ["index.php", "index.html"])
    assert [(item["codes"], item["uri"]) for item in block["error_pages"]] == [([404], "/lost.html")]
    found = [(item["pattern"], item["handler"]) for item in block["locations"]]
    assert found == [(r"\.php$", "php"), ("/api/", "proxy"), ("/files/", "static"), ("/secret/", "deny")]
    assert shop["php_pools"][0]["address"] == "unix:/run/php/php8.2-fpm.sock"
    assert shop["upstreams"][0]["servers"][0]["address"] == "127.0.0.1:3000"
    assert block["rewrites"] == [{"pattern": "^/old$", "replacement": "/new", "flag": "permanent"}]
    assert block["snippets"]["openlitespeed"].startswith("context /odd {")


APACHE = {
    "apache2/apache2.conf": "Listen 80\nInclude ports.conf\nIncludeOptional sites-enabled/*.conf\nTimeout 300\n",
    "apache2/ports.conf": "Listen 8080\n",
    "apache2/sites-enabled/shop.conf": """\
<VirtualHost *:80>
    ServerName shop.example
    Redirect permanent / https://shop.example/
</VirtualHost>
<VirtualHost *:8080>
    ServerName app.example
    DocumentRoot /srv/www/app
    Header set X-Served-By apache
    ProxyPass /api/ http://127.0.0.1:3000/
    ProxyPassReverse /api/ http://127.0.0.1:3000/
    <FilesMatch "\\.php$">
        SetHandler "proxy:unix:/run/php/php8.2-fpm.sock|fcgi://localhost"
    </FilesMatch>
    ScriptAlias /cgi-bin/ /usr/lib/cgi-bin/
    ServerAdmin anna@shop.example
</VirtualHost>
""",
}


def test_apache_directives_have_mapping_outcome(people: Cast) -> None:
    report = read(people, people.apache, APACHE)
    assert not report.faults and report.ports == [80, 8080]
    shop, app = report.sites
    assert [shop.name, app.name] == ["shop-example", "app-example"]
    assert outcome(app, "ProxyPass /api/") == ("mapped", "shop.conf:9")
    assert outcome(app, "FilesMatch")[0] == "mapped"
    assert outcome(app, "ServerAdmin") == ("snippet", "shop.conf:15")
    assert outcome(app, "ScriptAlias") == ("refused", "shop.conf:14")
    assert "Timeout 300" in [item.text for item in report.items]


def test_apache_sites_are_adopted_unchanged(people: Cast) -> None:
    shop, app = adopted(people, people.apache, APACHE, "shop-example", "app-example")
    (away,) = shop["blocks"][0]["locations"]
    assert (away["handler"], away["return_code"]) == ("return", 301)
    assert away["return_value"].startswith("https://shop.example")
    block = app["blocks"][0]
    assert block["root"] == "/srv/www/app"
    assert [(header["name"], header["value"]) for header in block["headers"]] == [("X-Served-By", "apache")]
    handlers = {item["handler"] for item in block["locations"]}
    assert {"proxy", "php"} <= handlers
    assert Site.objects.count() == 2


NGINX = {
    "nginx/nginx.conf": "events {}\nhttp {\n    include conf.d/*.conf;\n}\n",
    "nginx/conf.d/shop.conf": """\
server {
    listen 80;
    server_name shop.example;
    root /srv/www/shop;
    large_client_header_buffers 4 16k;
    rewrite ^/old/(.*)$ /new/$1 last;
    rewrite ^/(?<page>[a-z]+)\\.htm$ /$page.html permanent;
    location /api/ {
        rewrite ^/api/(.*)$ /$1 break;
        proxy_pass http://127.0.0.1:3000;
    }
    location /odd/ {
        rewrite ^/odd/a$ /a;
        if ($arg_b) { return 403; }
        rewrite ^/odd/b$ /b;
    }
    location /far/ { rewrite ^/far/(.*)$ $far_map last; }
}
""",
}


def test_nginx_rewrites_are_mapped_as_whole_lists_or_stay_raw(people: Cast) -> None:
    (shop,) = read(people, people.nginx, NGINX).sites
    assert outcome(shop, "rewrite ^/old/")[0] == outcome(shop, "rewrite ^/api/")[0] == "mapped"
    assert outcome(shop, "rewrite ^/odd/a$")[0] == outcome(shop, "rewrite ^/odd/b$")[0] == "snippet"
    assert outcome(shop, "rewrite ^/far/")[0] == "refused", "a map could lead anywhere"
    assert outcome(shop, "large_client_header_buffers")[0] == "mapped"
    block = shop.definition["blocks"][0]
    assert block["client_max_header_kb"] == 16
    assert block["rewrites"] == [
        {"pattern": "^/old/(.*)$", "replacement": "/new/$1", "flag": "last"},
        {"pattern": r"^/(?<page>[a-z]+)\.htm$", "replacement": "/$page.html", "flag": "permanent"},
    ]
    api = next(item for item in block["locations"] if item["pattern"] == "/api/")
    assert api["rewrites"] == [{"pattern": "^/api/(.*)$", "replacement": "/$1", "flag": "break"}]
