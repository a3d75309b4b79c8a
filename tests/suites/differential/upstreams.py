"""Odd answers of applications, and what `proxy_pass`, `fastcgi_pass`, `uwsgi_pass`, and `scgi_pass` make of them.

A request carries the answer that the application (odd.py) is to give: heads and bodies well formed and not, in one
piece or in several. What the application was asked is compared, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

from tests.suites.differential import odd_answers
from tests.suites.differential.configs import Place
from tests.suites.differential.odd_application import SECOND, stdout_of, told
from tests.suites.differential.requests import Sent
from tests.suites.differential.servers import is_old

SITES = 6
# Locations and the modules that pass their requests on; and the same of gateways.
SERVERS = {"http": "proxy", "other": "proxy", "fcgi": "fastcgi", "more": "fastcgi"}
GATEWAYS = {"uwsgi": "uwsgi", "wsgi": "uwsgi", "scgi": "scgi", "cgi": "scgi"}
LOG = (
    "$http_x_number $status <$request> $uri|$args|us=$upstream_status|cache=$upstream_cache_status|$sent_http_location"
)
BOTH = [
    "{m}_buffering off;", "{m}_buffer_size 1k;", "{m}_buffer_size 8k;", "{m}_intercept_errors on;",
    "{m}_hide_header X-One;", "{m}_hide_header Set-Cookie;", "{m}_pass_header Server;", "{m}_pass_header Date;",
    "{m}_pass_header X-Accel-Redirect;", "{m}_ignore_headers X-Accel-Redirect X-Accel-Charset;",
    "{m}_ignore_headers Cache-Control Expires Set-Cookie Vary;", "{m}_ignore_headers X-Accel-Buffering;",
    "{m}_next_upstream error timeout invalid_header http_500 http_404;", "{m}_next_upstream off;",
    "{m}_next_upstream http_503 http_429 non_idempotent;", "{m}_next_upstream error; {m}_next_upstream_tries 1;",
    "{m}_force_ranges on;", "{m}_limit_rate 100m;", "{m}_max_temp_file_size 0;", "{m}_request_buffering off;",
    "{m}_ignore_client_abort on;", "{m}_buffers 4 1k; {m}_busy_buffers_size 2k; {m}_buffer_size 1k;",
    "{m}_cache {m}; {m}_cache_key $http_x_key; {m}_cache_valid any 1h;",
    "{m}_cache {m}; {m}_cache_key $http_x_key$request_method; {m}_cache_valid 200 302 1h; {m}_cache_methods POST;",
    "{m}_cache {m}; {m}_cache_key $http_x_key; {m}_ignore_headers Cache-Control Expires Set-Cookie Vary;"
    " {m}_cache_valid 200 404 1h; {m}_cache_use_stale error invalid_header http_500 http_404;",
    "{m}_cache {m}; {m}_cache_key k$http_x_key; {m}_cache_revalidate on; {m}_cache_valid 200 1h; {m}_cache_min_uses 2;",
    "{m}_cache {m}; {m}_cache_key $http_x_key; {m}_no_cache $upstream_http_x_one; {m}_cache_valid any 1h;",
]  # fmt: skip
PROXY = [
    "proxy_http_version 1.0;", "proxy_http_version 1.1;", 'proxy_set_header Connection "";', "proxy_redirect off;",
    "proxy_redirect http://app/ /back/;", "proxy_redirect ~^/(.*)$ /re/$1; proxy_redirect default;",
    "proxy_cookie_domain inner.test outer.test; proxy_cookie_path /in/ /out/;", "proxy_cookie_flags ~ httponly;",
    "proxy_pass_trailers on;", "proxy_method POST;",
    "proxy_set_header TE trailers; proxy_pass_trailers on;",
]  # fmt: skip
FASTCGI = ["fastcgi_keep_conn on;", "fastcgi_index index.php;",
           "fastcgi_split_path_info ^(/[a-z]+)(/.*)$; fastcgi_param PATH_INFO $fastcgi_path_info;",
           "fastcgi_param HTTP_X_OWN own;", "fastcgi_catch_stderr Oops;",
           "fastcgi_param EMPTY '' if_not_empty;"]  # fmt: skip
OWN = {
    "proxy": PROXY,
    "fastcgi": FASTCGI,
    "uwsgi": ["uwsgi_param HTTP_X_OWN own;", "uwsgi_param EMPTY '' if_not_empty;", "uwsgi_modifier2 3;"],
    "scgi": ["scgi_param HTTP_X_OWN own;", "scgi_param EMPTY '' if_not_empty;", "scgi_param SCGI 1;"],
}
MODIFIERS = [
    "gzip on; gzip_types *; gzip_min_length 1;", "sub_filter text TEXT;", "ssi on;", "charset utf-8;", "expires 1h;",
    "chunked_transfer_encoding off;", "add_header X-Up $upstream_http_x_one always;", "early_hints 1;",
    "add_header X-Up $upstream_cookie_a$upstream_status always;", "error_page 502 504 /50x.html;",
    "error_page 500 404 = @named;", "error_page 301 302 = @named;", "limit_rate 10m;", "add_after_body /after.txt;",
    "server_tokens off;", "charset koi8-r; source_charset utf-8; override_charset on;", "gunzip on;",
    "error_page 502 =200 /b.txt;", "recursive_error_pages on; error_page 502 503 = @named;", "etag off;",
    "add_trailer X-T $upstream_trailer_x_t;", "if_modified_since before;", "max_ranges 0;",
]  # fmt: skip
NEW = {"early_hints", "proxy_pass_trailers"}  # which nginx before 1.31 may not have
FIELDS = [
    "Range: bytes=0-2", "Range: bytes=1-2,4-5", "If-None-Match: \"up\"", "Accept-Encoding: gzip", "Connection: close",
    "If-Modified-Since: Sat, 01 Jun 2024 12:00:00 GMT", "If-Match: \"up\"", "Upgrade: websocket", "TE: trailers",
    "If-Range: \"up\"", "Expect: 100-continue", "Cookie: c=1", "X-Own: client", "If-None-Match: *", "Via: x",
]  # fmt: skip


def answering(chance: Random, place: Place) -> str:
    """The contents of an http block: sites that pass everything on, each in another way."""
    return _sites(chance, place, SERVERS)


def gateways(chance: Random, place: Place) -> str:
    """The same with uwsgi and SCGI."""
    return _sites(chance, place, GATEWAYS)


def _sites(chance: Random, place: Place, modules: dict[str, str]) -> str:
    lines = [
        f"log_format seen '{LOG}'; access_log log/seen.log seen; large_client_header_buffers 4 128k;",
        "proxy_cache_path cache levels=1:2 keys_zone=proxy:1m inactive=1h; proxy_read_timeout 1s;",
        *(
            f"{m}_cache_path cache/{m} levels=1:2 keys_zone={m}:1m inactive=1h; {m}_read_timeout 1s;"
            for m in ("fastcgi", "uwsgi", "scgi")
        ),
        "charset_map koi8-r utf-8 { C1 D0B0; C2 D0B1; }",
        # What nginx has done by itself since 1.29.
        'proxy_http_version 1.1; proxy_set_header Connection "";' if is_old() else "",
        f"upstream app {{ {_servers(chance, place.backend)} {chance.choice(['', 'keepalive 4;'])} }}",
        f"server {{ listen 127.0.0.1:{place.port}; server_name known; return 200; }}",
    ]
    for number in range(SITES):
        locations = [f"location /{name} {{ {_way(chance, kind)} }}" for name, kind in modules.items()]
        lines += [f"server {{ listen 127.0.0.1:{place.port}; server_name s{number}.test; root {place.www};",
                  *locations, 'location @named { return 404 "named $upstream_status\n"; } }']  # fmt: skip
    return "\n".join(lines)


def _servers(chance: Random, port: int) -> str:
    """The same one twice, or another one for when it fails."""
    second = chance.choice([f"127.0.0.1:{port}", f"{SECOND}:{port} backup"])
    return f"server 127.0.0.1:{port} max_fails=0; server {second} max_fails=0;"


def _way(chance: Random, kind: str) -> str:
    way = f"{kind}_pass app; {kind}_param REQUEST_METHOD $request_method;"
    if kind == "proxy":
        way = "proxy_pass http://app;"
    elif kind != "scgi":  # which tells the length by itself
        way += f" {kind}_param CONTENT_LENGTH $content_length;"
    some = chance.sample(BOTH, chance.randrange(4)) + chance.sample(OWN[kind], chance.randrange(3))
    some += chance.sample(MODIFIERS, chance.randrange(3))
    seen: set[str] = set()
    kept = [way]
    for line in (line.format(m=kind) for line in some):
        names = {part.split()[0] for part in line.split(";") if part.strip()}
        if not names & seen and not (is_old() and names & NEW):
            kept.append(line)
            seen |= names
    if chance.randrange(4) == 0 and "slice" not in seen:
        kept.append(f"{kind}_cache_background_update off;")
    return " ".join(kept)


def _each_once(lines: list[str]) -> list[str]:
    """Of fields that come twice an older nginx knows one only."""
    return [*{line.split(":")[0]: line for line in lines}.values()] if is_old() else lines


def _has_twice(parts: list[bytes]) -> bool:
    """Whether a name comes twice in an answer's head."""
    whole = b"".join(parts)
    text = stdout_of(whole) if whole.startswith(b"\x01") else whole
    names = re.findall(rb"\n([\w-]+):", b"\n" + text.partition(b"\r\n\r\n")[0])
    return len(names) > len(set(names))


def asked(chance: Random, count: int) -> Iterator[Sent]:
    """`count` requests to these servers."""
    return _asked(chance, count, SERVERS)


def asked_of_gateways(chance: Random, count: int) -> Iterator[Sent]:
    """`count` requests to gateways."""
    return _asked(chance, count, GATEWAYS)


MAKERS = {"proxy": odd_answers.http, "fastcgi": odd_answers.fastcgi}


def _asked(chance: Random, count: int, modules: dict[str, str]) -> Iterator[Sent]:
    for number in range(count):
        name = chance.choice([*modules])
        target = f"/{name}" + chance.choice(["", "/a/b", "?q=1", "/x%20y?", "/b.txt"])
        method, body = chance.choice([("GET", "")] * 6 + [("HEAD", ""), ("POST", "a=1"), ("POST", "y" * 9000)])
        version = chance.choice(["1.1"] * 6 + ["1.0"])
        make = MAKERS.get(modules[name], odd_answers.gateway)
        parts, end, is_odd = make(chance, method)
        while is_old() and (is_odd or _has_twice(parts)):  # older releases are no measure for those
            parts, end, is_odd = make(chance, method)
        lines = [f"{method} {target} HTTP/{version}", f"Host: s{chance.randrange(SITES)}.test", f"X-Number: {number}"]
        lines += _each_once(chance.sample(FIELDS, chance.choice([0, 0, 0, 1, 2])))
        second, then, is_broken = make(chance, method)
        while is_odd and is_broken:
            second, then, is_broken = make(chance, method)
        lines += [f"X-Second: {told(second, then)}"] if is_odd else []
        # What caches keep of an odd answer answers nothing else.
        lines += [f"X-Key: {f'odd{number}' if is_odd else chance.randrange(8)}", f"X-Answer: {told(parts, end)}"]
        lines += [f"Content-Length: {len(body)}"] if body else []
        data = "\r\n".join(lines) + "\r\n\r\n" + body
        yield Sent(target, method, None, version, data=data.encode(), number=number)
