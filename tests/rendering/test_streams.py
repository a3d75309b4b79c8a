"""Stream servers as nginx and gallop get them, and the sites that are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from panel.rendering import render, render_main, render_web_server
from panel.rendering.capabilities import differences
from panel.rendering.errors import NotExpressible
from panel.rendering.layout import disabled_path
from panel.rendering.spec import (
    SiteSpec,
    StreamRoute,
    StreamServer,
    TlsFiles,
    Upstream,
    UpstreamServer,
    WebServerSpec,
    from_json,
    to_json,
)

NGINX = WebServerSpec("nginx", "sites", "/etc/nginx", "/var/log", "1.22.1", modules=frozenset({"ngx_stream_module"}))
GALLOP = WebServerSpec("native", "conf_d", "/etc/gallop", "/var/log")
UPSTREAMS = (
    Upstream("db", (UpstreamServer("10.0.0.1:5432", 2, 3), UpstreamServer("10.0.0.2:5432", backup=True))),
    Upstream("dns", (UpstreamServer("[2001:db8::1]:53"), UpstreamServer("10.0.0.3:53", backup=True)), "ip_hash"),
)
SERVERS = (
    StreamServer("db", 5432, "db", connect_timeout_s=5, session_timeout_s=3600, proxy_protocol=True,
                 allowed=("10.0.0.0/8", "2001:db8::/32")),
    StreamServer("dns", 53, "dns", "127.0.0.1", "udp"),
    StreamServer("dns6", 53, "dns", "::1", "udp"),
)  # fmt: skip
SITE = SiteSpec("own", (), UPSTREAMS, stream_servers=SERVERS)
TEXT = """\
# Site own, managed by Paddock: change it there, edits made here are overwritten.

upstream paddock_own_db {
    server 10.0.0.1:5432 weight=2 max_fails=3;
    server 10.0.0.2:5432 backup;
}

upstream paddock_own_dns {
    hash $remote_addr;
    server [2001:db8::1]:53;
}

server {
    listen 5432;
    allow 10.0.0.0/8;
    allow 2001:db8::/32;
    deny all;
    proxy_connect_timeout 5s;
    proxy_timeout 3600s;
    proxy_protocol on;
    proxy_pass paddock_own_db;
}

server {
    listen 127.0.0.1:53 udp;
    proxy_pass paddock_own_dns;
}

server {
    listen [::1]:53 udp;
    proxy_pass paddock_own_dns;
}
"""


CERTIFICATE = TlsFiles("mail", "/etc/p/mail.crt", "/etc/p/mail.key")
CA = "/etc/ssl/certs/ca-certificates.crt"
TLS = SiteSpec(
    "own",
    (),
    (Upstream("db", (UpstreamServer("10.0.0.1:5432"),)), Upstream("imap", (UpstreamServer("10.0.0.2:993"),))),
    stream_servers=(
        StreamServer("both", 993, "db", tls=CERTIFICATE, upstream_tls=True, upstream_tls_name="db.example",
                     upstream_tls_ca=CA),
        StreamServer("names", 443, "db", routes=(
            StreamRoute("mail.example", "imap"), StreamRoute("*.example", "db"), StreamRoute("default", "imap"),
        )),
    ),
)  # fmt: skip
TLS_TEXT = """\
# Site own, managed by Paddock: change it there, edits made here are overwritten.

upstream paddock_own_db {
    server 10.0.0.1:5432;
}

upstream paddock_own_imap {
    server 10.0.0.2:993;
}

map $ssl_preread_server_name $paddock_own_route_1 {
    hostnames;
    default paddock_own_db;
    mail.example paddock_own_imap;
    *.example paddock_own_db;
    \\default paddock_own_imap;
}

server {
    listen 993 ssl;

    ssl_certificate /etc/p/mail.crt;
    ssl_certificate_key /etc/p/mail.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:paddock_stream_tls:10m;
    ssl_session_timeout 1d;
    proxy_ssl on;
    proxy_ssl_protocols TLSv1.2 TLSv1.3;
    proxy_ssl_server_name on;
    proxy_ssl_name db.example;
    proxy_ssl_verify on;
    proxy_ssl_verify_depth 3;
    proxy_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;
    proxy_pass paddock_own_db;
}

server {
    listen 443;
    ssl_preread on;
    proxy_pass $paddock_own_route_1;
}
"""


@pytest.mark.parametrize("web_server", [NGINX, GALLOP], ids=lambda item: item.engine)
def test_tls_and_upstreams_by_name_are_rendered(web_server: WebServerSpec) -> None:
    (file,) = render(TLS, web_server)
    assert file.text.rstrip() == TLS_TEXT.rstrip()
    assert differences(TLS, web_server) == []


def test_buckets_of_nginx_have_room_for_the_longest_name() -> None:
    """nginx refuses a map with a key that is longer than its buckets, and a second directive that sets their size."""
    (file,) = render_web_server([TLS, SITE], NGINX)
    assert "stream {\n    map_hash_bucket_size 512;\n    include /etc/nginx/stream.d/*.conf;\n}" in file.text
    assert "map_hash_bucket_size" not in render_web_server([SITE], NGINX)[0].text


@pytest.mark.parametrize("web_server", [NGINX, GALLOP], ids=lambda item: item.engine)
def test_stream_servers_are_rendered_to_a_file_of_their_own(web_server: WebServerSpec) -> None:
    (file,) = render(SITE, web_server)
    assert (file.path, file.text.rstrip()) == (f"{web_server.config_root}/stream.d/own.conf", TEXT.rstrip())
    assert disabled_path(file.path, web_server) == f"{file.path}.disabled"
    assert differences(replace(SITE, upstreams=UPSTREAMS[:1], stream_servers=SERVERS[:1]), web_server) == []


def test_stream_block_is_included_by_debian_or_by_main_file_of_gallop() -> None:
    (file,) = render_web_server([SITE], NGINX)
    assert file.path == "/etc/nginx/modules-enabled/99-paddock-streams.conf"
    assert "stream {\n    include /etc/nginx/stream.d/*.conf;\n}" in file.text
    assert render_web_server([], NGINX) == render_web_server([SITE], GALLOP) == []
    main = render_main(GALLOP)[0].text
    assert "stream {\n    include /etc/gallop/stream.d/*.conf;\n}" in main
    assert "stream {" not in render_main(NGINX)[0].text, "nginx may lack the module"


@pytest.mark.parametrize(
    ("web_server", "words"),
    [
        (WebServerSpec("apache", "sites", "/etc/apache2", "/var/log"), "Apache httpd has no stream servers"),
        (WebServerSpec("openlitespeed", "vhosts", "/usr/ols", "/var/log"), "OpenLiteSpeed has no stream servers"),
        (replace(NGINX, modules=frozenset()), "has not loaded its stream module; install the module"),
        (replace(NGINX, layout="conf_d"), "includes no files outside of its http block"),
    ],
    ids=["apache", "openlitespeed", "nginx-without-module", "nginx-without-place"],
)
def test_web_server_without_stream_servers_refuses_site_and_says_so_before(
    web_server: WebServerSpec, words: str
) -> None:
    with pytest.raises(NotExpressible, match=words) as caught:
        render(SITE, web_server)
    assert caught.value.field == "/stream_servers"
    found = [item.what for item in differences(SITE, web_server) if item.field == "/stream_servers"]
    assert found == [caught.value.message]


def _server(**values: Any) -> SiteSpec:
    return replace(SITE, stream_servers=(replace(SERVERS[0], **values),))


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        (_server(upstream="none"), "upstream", "the site has no upstream “none”"),
        (_server(port=0), "port", "0 is not a port"),
        (_server(address="x; }"), "address", "is not an IP address"),
        (_server(allowed=("all; }",)), "allowed", "is not an IP address"),
        (_server(name="a b"), "name", "is not a name"),
        (_server(protocol="udp"), "proxy_protocol", "only for TCP"),
        (replace(SITE, upstreams=(Upstream("db", (UpstreamServer("10.0.0.1"),)), UPSTREAMS[1])), "upstream", "no port"),
        (
            replace(SITE, upstreams=(UPSTREAMS[0], Upstream("dns", (UpstreamServer("unix:/run/x"),)))),
            "upstream",
            "UDP needs addresses with ports",
        ),
    ],
)
def test_impossible_stream_server_is_refused_at_its_field(spec: SiteSpec, field: str, words: str) -> None:
    with pytest.raises(NotExpressible, match=words) as caught:
        render(spec, NGINX)
    assert caught.value.field.endswith(f"/{field}")


def _both(**values: Any) -> SiteSpec:
    return replace(TLS, stream_servers=(replace(TLS.stream_servers[0], **values),))


def _names(*names: str, upstream: str = "imap", **values: Any) -> SiteSpec:
    routes = tuple(StreamRoute(name, upstream) for name in names)
    return replace(TLS, stream_servers=(replace(TLS.stream_servers[1], routes=routes, **values),))


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        (_both(protocol="udp"), "tls", "TLS is only for TCP"),
        (_both(protocol="udp", tls=None), "upstream_tls", "TLS is only for TCP"),
        (_both(tls=replace(CERTIFICATE, certificate_path="/etc/$host.crt")), "certificate_path", "expand"),
        (_both(tls=replace(CERTIFICATE, key_path="key")), "key_path", "not an absolute path"),
        (_both(upstream_tls_name="$host"), "upstream_tls_name", "is not a domain name"),
        (_both(upstream_tls_name="a;}"), "upstream_tls_name", "is not a domain name"),
        (_both(upstream_tls_name=""), "upstream_tls_name", "must have"),
        (_both(upstream_tls_ca="/etc/shadow"), "upstream_tls_ca", "outside the folders"),
        (_both(upstream_tls_ca="/etc/ssl/certs/../../shadow"), "upstream_tls_ca", "contains .."),
        (_both(upstream_tls_ca="/etc/ssl/certs/$a"), "upstream_tls_ca", "expand"),
        (_names("a.example", protocol="udp"), "routes", "TLS is only for TCP"),
        (_names("a.example", tls=CERTIFICATE), "routes", "passes TLS on unchanged"),
        (_names("a.example", upstream_tls=True), "routes", "passes TLS on unchanged"),
        (_names("a.example", "a.example"), "routes/1/name", "appears twice"),
        (_names("a.example", upstream="none"), "routes/0/upstream", "the site has no upstream “none”"),
        (_names("a b"), "routes/0/name", "is not a domain name"),
        (_names("a;"), "routes/0/name", "is not a domain name"),
        (_names('a"'), "routes/0/name", "is not a domain name"),
        (_names("a\nb"), "routes/0/name", "control character"),
        (_names("$a"), "routes/0/name", "is not a domain name"),
        (_names("~a"), "routes/0/name", "is not a domain name"),
        (_names("*.*.a"), "routes/0/name", "is not a domain name"),
        (_names("a" * 64), "routes/0/name", "is not a domain name"),
        (_names(".".join(["a" * 60] * 5)), "routes/0/name", "longer than 253"),
        (_names(""), "routes/0/name", "is not a domain name"),
    ],
)
def test_impossible_tls_settings_are_refused_at_their_field(spec: SiteSpec, field: str, words: str) -> None:
    with pytest.raises(NotExpressible, match=words) as caught:
        render(spec, NGINX)
    assert caught.value.field.endswith(f"/{field}")


def test_stream_servers_survive_the_stored_form_and_earlier_revisions_have_none() -> None:
    data = to_json(SITE)
    assert from_json(SiteSpec, data) == SITE
    assert from_json(SiteSpec, to_json(TLS)) == TLS
    del data["stream_servers"]
    assert from_json(SiteSpec, data).stream_servers == ()
