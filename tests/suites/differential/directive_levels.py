"""Directives at every level: what a server, a location and a nested one take over from the level around them.

A family of directives has several values, some of them of another directive of the family. Each of the four levels
(http, server, location, nested location) says one of them or nothing. As in the generator of whole sites, everything
comes from one `random.Random`, so a number makes the same configuration again.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.suites.differential.configs import LOG, Place
from tests.suites.differential.requests import Sent
from tests.suites.differential.servers import is_old

Family = tuple[str, list[str]]
PLAIN, PASSED = "", "proxy_pass http://app/fields;"
# Of each family: what locations do with requests, and what a level may say.
FAMILIES: list[Family] = [
    (PLAIN, ["add_header X-One a;", "add_header X-Two b; add_header X-Three c always;", 'add_header X-One "";',
             "add_header X-Four d; add_header_inherit merge;", "add_header X-Five e; add_header_inherit off;"]),
    (PLAIN, ["add_trailer X-One a;", "add_trailer X-Two b;", 'add_trailer X-One "";']),
    (PLAIN, ["expires 1h;", "expires max;", "expires off;"]),
    (PLAIN, ["error_page 404 /404.html;", "error_page 404 =410 /50x.html; error_page 403 /404.html;",
             "error_page 500 /404.html;", "recursive_error_pages on;"]),
    (PLAIN, ["deny 127.0.0.0/8;", "allow all;", "allow 10.0.0.0/8; deny all;", "satisfy any;",
             "auth_basic a; auth_basic_user_file htpasswd;", "auth_basic off;"]),
    (PLAIN, ["root WWW/a;", "root WWW/other;", "index b.txt;", "index none index.html;", "autoindex on;"]),
    (PLAIN, ["types { text/a txt; }", "types { text/b html; }", "default_type a/b;", 'default_type "";']),
    (PLAIN, ["charset utf-8;", "charset koi8-r;", "charset off;", "charset_types text/plain;", "charset_types *;",
             "source_charset utf-8;", "override_charset on;"]),
    (PLAIN, ["gzip on; gzip_min_length 1;", "gzip_types text/plain;", "gzip_types *;", "gzip off;", "gzip_vary on;",
             "gzip_proxied any;", "gzip_http_version 1.0;"]),
    (PLAIN, ["etag off;", "etag on;", "if_modified_since off;", "if_modified_since before;", "max_ranges 0;",
             "max_ranges 1;"]),
    (PLAIN, ["sub_filter a A;", "sub_filter b B; sub_filter_once off;", "sub_filter_types *;",
             "sub_filter_last_modified on;"]),
    (PLAIN, ["add_before_body /before.txt;", "add_after_body /after.txt;", "addition_types *;", 'add_after_body "";']),
    (PLAIN, ["ssi on;", "ssi off;", "ssi_types *;", "ssi_last_modified on;", "ssi_silent_errors on;"]),
    (PLAIN, ["auth_request /auth-check;", "auth_request /app;", "auth_request off;",
             "auth_request_set $v one; add_header X-V $v;"]),
    (PLAIN, ["limit_req zone=req;", "limit_req zone=req burst=2 nodelay;", "limit_req_status 429;",
             "limit_req_dry_run on;"]),
    (PLAIN, ["limit_conn con 50;", "limit_conn con 1;", "limit_conn_status 509;", "limit_conn_dry_run on;"]),
    (PLAIN, ["server_tokens off;", "server_tokens on;", "log_not_found off;", "log_subrequest on;"]),
    (PLAIN, ["access_log log/seen.log seen if=$arg_q;", "access_log off;", "access_log log/other.log;"]),
    (PLAIN, ['secure_link $arg_q; add_header X-S "[$secure_link]";', 'secure_link_md5 "s";',
             'secure_link_md5 "t$uri";']),
    (PLAIN, ["disable_symlinks on;", "disable_symlinks off;", "disable_symlinks if_not_owner;"]),
    (PLAIN, ["absolute_redirect off;", "port_in_redirect off;", "server_name_in_redirect on;",
             "absolute_redirect on;"]),
    (PLAIN, ["keepalive_timeout 10 20;", "keepalive_timeout 75;", "keepalive_disable none;"]),
    (PLAIN, ["set_real_ip_from 127.0.0.0/8; add_header X-R $remote_addr;", "real_ip_header X-Forwarded-For;",
             "real_ip_recursive on;", "set_real_ip_from 10.0.0.1;"]),
    (PASSED, ["client_max_body_size 10;", "client_max_body_size 1k;", "client_max_body_size 0;"]),
    ("proxy_pass http://app;", ["proxy_set_header X-Own one;", "proxy_set_header Host h;",
             'proxy_set_header X-Own ""; proxy_set_header Host $http_x_none;', "proxy_pass_request_headers off;"]),
    ("proxy_pass http://app;", ["proxy_method POST;", "proxy_set_body x;", "proxy_http_version 1.0;",
             "proxy_http_version 1.1;"]),
    (PASSED, ["proxy_hide_header X-One;", "proxy_hide_header Vary;", "proxy_pass_header Server;",
              "proxy_pass_header X-Accel-Charset; proxy_hide_header X-Pad;"]),
    (PASSED, ["proxy_ignore_headers Cache-Control;", "proxy_ignore_headers Expires Set-Cookie X-Accel-Charset;",
              "proxy_cache c; proxy_cache_valid 1h; add_header X-C $upstream_cache_status;", "proxy_cache off;",
              "proxy_cache_key $uri;", "proxy_cache_valid 404 1h;", "proxy_cache_min_uses 2;",
              "proxy_cache_bypass $arg_q;"]),
    (PASSED, ["proxy_cookie_domain inner.test o.test;", "proxy_cookie_domain ~inner i;", "proxy_cookie_domain off;",
              "proxy_cookie_path /in /x;", "proxy_cookie_path off;", "proxy_cookie_flags a secure;",
              "proxy_cookie_flags off;"]),
    (PASSED, ["proxy_redirect http://app/ /r1/;", "proxy_redirect ~app /r2;", "proxy_redirect off;"]),
    ("proxy_pass http://app/status/503;", ["proxy_intercept_errors on; error_page 503 /404.html;",
              "proxy_intercept_errors off;", "error_page 503 /50x.html;", "proxy_next_upstream http_503;"]),
    ("proxy_pass http://app/files/b.txt;", ["proxy_force_ranges on;", "proxy_force_ranges off;",
              "proxy_buffering off;", "slice 4; proxy_set_header Range $slice_range;", "gunzip on;"]),
]  # fmt: skip
SITES = 8
PATHS = ["", "b.txt", "page.html", "none", "folder", "ssi.html", "link.txt", "b.txt?q=1"]
FIELDS = ["", "", "Accept-Encoding: gzip", "Range: bytes=0-1,3-4", "X-Forwarded-For: 192.0.2.1, 10.0.0.1",
          "If-Modified-Since: Sat, 01 Jun 2024 12:00:00 GMT", "Authorization: Basic YW5uOnBhc3N3b3Jk"]  # fmt: skip


def levels(chance: Random, place: Place) -> str:
    """The contents of an http block: each server has a family of its own, of which the http block says nothing.

    Or all have the same one, and the http block says something of it, too.
    """
    common = chance.choice(FAMILIES) if chance.randrange(2) else None
    # The default type is the test's own configuration's to say.
    said = chance.choice([value for value in _values(common) if "default_type" not in value]) if common else ""
    log = "" if "access_log" in said else "access_log log/seen.log seen;"
    lines = [
        f"log_format seen '{LOG}'; {log} {said}",
        "charset_map koi8-r utf-8 { C1 D0B0; C2 D0B1; }",
        "proxy_cache_path cache levels=1:2 keys_zone=c:1m inactive=1h;",
        "limit_req_zone $request_uri zone=req:1m rate=1r/m; limit_conn_zone $server_name zone=con:1m;",
        f"upstream app {{ server 127.0.0.1:{place.backend}; keepalive 4; }}",
        f"server {{ listen 127.0.0.1:{place.port}; server_name known; }}",
    ]
    for number in range(SITES):
        lines += _server(chance, place, number, common or chance.choice(FAMILIES))
    return "\n".join(lines).replace("WWW", place.www)


def _values(family: Family) -> list[str]:
    """What this nginx knows of a family."""
    return [value for value in family[1] if not (is_old() and "_inherit" in value)]


def _server(chance: Random, place: Place, number: int, family: Family) -> list[str]:
    way, values = family[0], _values(family)
    lines = [f"server {{ listen 127.0.0.1:{place.port}; listen 127.0.0.1:{place.behind} proxy_protocol;",
             f"server_name s{number}.test;"]  # fmt: skip
    lines += ["" if any("root " in value for value in values) else f"root {place.www};", _said(chance, values)]
    lines += ["set $v '';", "location = /auth-check { auth_request off; return 204; }", "location /app { internal; }"]
    for name in ("/a/", "/img/", "/"):
        inner = f"location {name}b {{ {way} {_said(chance, values)} }}"
        lines.append(f"location {name} {{ {way.replace('/fields', '')} {_said(chance, values)} {inner} }}")
    return [*lines, "}"]


def _said(chance: Random, values: list[str]) -> str:
    """Nothing, one value, or two of directives that are not the same."""
    seen: set[str] = set()
    kept = []
    for value in chance.sample(values, chance.choice([0, 1, 1, 2])):
        names = {part.split()[0] for part in value.split(";") if part.strip(" }")}
        if not names & seen:
            kept.append(value)
        seen |= names
    return " ".join(kept)


def asked(chance: Random, count: int) -> Iterator[Sent]:
    """`count` requests to these servers."""
    for number in range(count):
        target = chance.choice(["/a/", "/img/", "/"]) + chance.choice(PATHS)
        method, body = chance.choice([("GET", ""), ("GET", ""), ("GET", ""), ("HEAD", ""), ("POST", "x" * 100)])
        lines = [f"{method} {target} HTTP/1.1", f"Host: s{chance.randrange(SITES)}.test", f"X-Number: {number}"]
        lines += [field for field in [chance.choice(FIELDS)] if field]
        lines += [f"Content-Length: {len(body)}"] if body else []
        data = "\r\n".join(lines) + "\r\n\r\n" + body
        yield Sent(target, method, None, "1.1", data=data.encode(), number=number)
