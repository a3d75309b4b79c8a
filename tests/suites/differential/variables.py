"""Every variable that both servers know, as rewrite rules see it and as the log does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

from tests.suites.differential.configs import Place
from tests.suites.differential.requests import Sent
from tests.suites.differential.servers import is_old

# Left out are those whose value is another on each server or at each moment, or tells how a body was framed.
NAMES = """
uri document_uri request_uri args query_string is_args request_method request server_protocol host http_host scheme
https content_length content_type document_root realpath_root request_filename request_length request_completion
remote_user remote_addr binary_remote_addr realip_remote_addr server_name hostname pipe request_port
is_request_port http_cookie cookie_c cookie_none arg_q arg_none http_x_two http_referer http_user_agent http_via
http_x_forwarded_for http_none proxy_add_x_forwarded_for invalid_referer secure_link
fastcgi_script_name fastcgi_path_info limit_rate slice_range gzip_ratio status
proxy_host proxy_port sent_http_content_type sent_http_content_length sent_http_location sent_http_last_modified
sent_http_cache_control sent_http_link sent_http_x_one sent_http_etag sent_http_server
sent_http_transfer_encoding sent_http_none sent_trailer_x_t upstream_status upstream_cache_status
upstream_http_server upstream_http_x_one upstream_http_set_cookie upstream_cookie_a
upstream_http_none upstream_trailer_x limit_req_status limit_conn_status request_body proxy_protocol_addr
proxy_protocol_port proxy_protocol_server_addr proxy_protocol_server_port proxy_protocol_tlv_alpn ssl_protocol
ssl_cipher ssl_session_reused http2 http3 connection_requests mapped near part
""".split()  # noqa: SIM905
# What nginx works out once, and a rewrite rule would ask for too early.
LATE = re.compile(r"sent_|upstream_|gzip_|limit_|request_completion|status|proxy_(host|port)$")
# Unknown to releases before 1.31, or told there of the first of several fields only.
RECENT = (
    "http3", "proxy_protocol_tlv_alpn", "request_port", "is_request_port", "http_x_two", "http_referer",
    "sent_http_x_one", "upstream_http_x_one",
)  # fmt: skip
SITES = 4
PATHS = ["/set", "/set/a.php/info", "/files/b.txt", "/files/page.html", "/files/none", "/files/a", "/zip/page.html",
         "/pass/fields", "/pass/move", "/pass/status/404", "/cached", "/unbuffered/", "/moved", "/none", "/page",
         "/kept/b.txt"]  # fmt: skip
FORMS = ["", "", "?q=1", "?a=b&Q=x%20y", "?", "?md5=x&q=2147483647"]
FIELDS = [
    "Cookie: c=1; d=2", "Cookie: x; C=3", "X-Two: a\r\nX-Two: b", "Referer: http://x.test/", "User-Agent: agent",
    "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2", "X-Forwarded-For: 192.0.2.9", "Range: bytes=0-2",
    "Referer: http://good.test/", "Via: 1.1 v", "Authorization: Basic YW5uOnBhc3N3b3Jk", "Accept-Encoding: gzip",
    "Range: bytes=0-0,2-3", "If-None-Match: *", "Content-Type: a/b",
]  # fmt: skip
HOSTS = ["s{}.test", "S{}.Test:81", "x.s{}.test", "s{}.test."]
LOCATIONS = r"""
    location = /set {{ {shown} return 200 "{values}"; }}
    location ~ \.php {{ fastcgi_split_path_info ^(.+\.php)(/.*)$; {shown} return 200 "{values}"; }}
    location /files/ {{ alias {www}/; add_header X-One a; add_header X-One b; add_header Link '<a>';
        add_header Cache-Control no-cache; add_trailer X-T $uri; expires 1h; }}
    location /zip/ {{ alias {www}/; gzip on; gzip_min_length 1; gzip_vary on; gzip_types *; gzip_proxied any; }}
    location /pass/ {{ proxy_pass http://app/; proxy_set_header Host h; proxy_ignore_headers X-Accel-Charset; }}
    location = /cached {{ proxy_pass http://app/cached; proxy_cache c; proxy_cache_valid 1h; }}
    location /unbuffered/ {{ proxy_pass http://app; proxy_buffering off; proxy_http_version 1.1;
        proxy_set_header Connection ""; }}
    location = /moved {{ return 301 /to?$args; }}
    location = /none {{ return 204; }}
    location = /page {{ error_page 404 = /files/404.html; return 404; }}
    location /kept/ {{ alias {www}/; client_body_in_file_only clean; limit_rate 1m; }}
"""


def shown(chance: Random, place: Place) -> str:
    """The contents of an http block, whose servers show and log all of them in another order."""
    lines = [
        "proxy_cache_path cache levels=1:2 keys_zone=c:1m inactive=1h;",
        "limit_req_zone $remote_addr zone=req:1m rate=10000r/s; limit_conn_zone $server_name zone=con:1m;",
        f"upstream app {{ server 127.0.0.1:{place.backend}; }}",
        "map $uri $mapped { default d; ~^/(?<first>[a-z]+) $first; }",
        "geo $near { default out; 127.0.0.0/8 own; 192.0.2.0/24 test; }",
        'split_clients "$uri$args" $part { 30% a; 25.5% b; * c; }',
    ]
    log = "".join(f"{name}=[${name}] " for name in chance.sample(_known(), len(_known())))
    lines.append(f"log_format seen '$http_x_number {log}'; access_log log/seen.log seen;")
    for number in range(SITES):
        lines += _server(chance, place, number)
    return "\n".join(lines)


def _known() -> list[str]:
    return [name for name in NAMES if not (is_old() and name in RECENT)]


def _server(chance: Random, place: Place, number: int) -> list[str]:
    early = [name for name in _known() if not LATE.match(name)]
    parts = [chance.sample(early, 30) for _ in range(3)]
    values = ["".join(f"{name}=[${name}]\\n" for name in part) for part in parts]
    sets = " ".join(f'set $p{i} "{value}";' for i, value in enumerate(values))
    some = ["limit_req zone=req burst=100;", "limit_conn con 50;", "valid_referers none server_names good.test;",
            "secure_link $arg_md5,$arg_q; secure_link_md5 word;", "underscores_in_headers on;", "server_tokens off;",
            "auth_basic a; auth_basic_user_file htpasswd;", "satisfy any;", "server_name_in_redirect on;",
            "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;"]  # fmt: skip
    return [
        f"server {{ listen 127.0.0.1:{place.port}; listen 127.0.0.1:{place.behind} proxy_protocol;",
        f"server_name s{number}.test *.s{number}.test{' known' if number == 0 else ''}; root {place.www};",
        *chance.sample(some, chance.randrange(5)),
        LOCATIONS.format(www=place.www, shown=sets, values="$p0$p1$p2"),
        "}",
    ]


def asked(chance: Random, count: int) -> Iterator[Sent]:
    """`count` requests to these servers; one in ten with the PROXY protocol."""
    for number in range(count):
        target = chance.choice(PATHS) + chance.choice(FORMS)
        method, body = chance.choice([("GET", "")] * 4 + [("HEAD", ""), ("POST", "a=1"), ("POST", "y" * 20_000)])
        behind = chance.randrange(10) == 0
        host = chance.choice(HOSTS).format(chance.randrange(SITES))
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", f"X-Number: {number}"]
        lines += ["Connection: close"] if behind else []
        lines += chance.sample(FIELDS, chance.randrange(4))
        lines += [f"Content-Length: {len(body)}"] if body else []
        data = "\r\n".join(lines) + "\r\n\r\n" + body
        preface = b"PROXY TCP4 192.0.2.1 198.51.100.1 1234 8443\r\n" if behind else b""
        yield Sent(target, method, None, "1.1", data=data.encode(), number=number, preface=preface, alone=behind)
