"""Configurations as a hostile administrator might write them: generated text that nginx and gallop both read.

Everything comes from one `random.Random`, so a number makes the same configuration again. What an answer depends on is
shown in it: most locations add a field that holds the variables a rewrite can change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.suites.differential import configuration_pieces

Maker = Callable[["Site"], list[str]]
MAKES_SUBREQUESTS = ("mirror /", "auth_request /", "_body /", "ssi on")

FIELDS = (
    'add_header X-Seen "$uri|$args|$v|$w|$1|$2|$host|$server_name|$request_uri|$request_method|$is_args|$document_uri|'
    '$request_filename|$arg_q|$cookie_c|$http_x_own|len=$content_length|$scheme|$server_protocol"',
    # By itself: a map's regular expression changes $1 between nginx's two looks at one text ("no buffer space").
    'add_header X-Mapped "$m|$split|$geo|$net"',
    'add_header X-More "$remote_addr|$remote_user|$realip_remote_addr|$proxy_protocol_addr|$proxy_protocol_server_port|'
    "$query_string|$content_type|$http_host|$document_root|$https|rl=$request_length|$upstream_status|$slice_range|"
    '$upstream_cache_status|$secure_link|$invalid_referer|$limit_req_status|$status"',
)
# What the log says of each request; gzip's sizes are not told.
LOG = (
    "$http_x_number $status <$request> |rl=$request_length| $remote_addr $remote_user $uri|a=$args|$host|"
    "$upstream_status|$upstream_cache_status|$upstream_response_length|$sent_http_location|$sent_http_content_type|$http_referer|"
    "len=$content_length|$limit_req_status|$limit_conn_status|$request_completion|$request_method|$server_protocol|"
    "$realip_remote_addr|$proxy_protocol_addr|$sent_http_etag|$sent_http_content_range"
)


@dataclass(frozen=True)
class Place:
    """What both servers find on this machine."""

    port: int
    behind: int  # the port that wants the PROXY protocol
    backend: int
    www: str


@dataclass(frozen=True)
class Site:
    """What a server block is made from."""

    chance: Random
    place: Place
    number: int

    def one_of(self, *several: str) -> str:
        return self.chance.choice(several)

    def seldom(self, *several: str, of: int = 4) -> list[str]:
        """One of them, once in `of` times."""
        return [self.chance.choice(several)] if self.chance.randrange(of) == 0 else []


def configuration(chance: Random, place: Place, sites: int) -> str:
    """The contents of an http block: shared parts, `sites` server blocks, and one that knows every variable."""
    shared = [
        f"map $uri $m {{ {configuration_pieces.pick(chance, configuration_pieces.MAPS)} }}",
        f"geo $net {{ {configuration_pieces.pick(chance, configuration_pieces.NETS)} }}",
        f"geo $arg_ip $geo {{ {configuration_pieces.pick(chance, configuration_pieces.GEOS)} }}",
        'split_clients "$uri$args" $split { 30% a; 25.5% b; * c; }',
        *(line for line in configuration_pieces.HTTP_ONLY if chance.randrange(4) == 0),
        f"log_format seen '{LOG}'; access_log log/seen.log seen;",
        "charset_map koi8-r utf-8 { C1 D0B0; C2 D0B1; D7 D0B2; E1 D090; }",
        "proxy_cache_path cache levels=1:2 keys_zone=c:1m inactive=1h;",
        "limit_req_zone $arg_q zone=req:1m rate=1r/m; limit_conn_zone $server_name zone=con:1m;",
        f"upstream app {{ server 127.0.0.1:{place.backend}; {chance.choice(['', 'keepalive 4;'])} }}",
        # Only the variables' names matter here.
        f'server {{ listen 127.0.0.1:{place.port}; server_name ~^(?<w>known)(?<x>)$; set $v ""; }}',
    ]
    blocks = [_server(Site(chance, place, number)) for number in range(sites)]
    return "\n".join([*shared, *blocks])


def names(number: int) -> list[str]:
    """The kinds of names a block may have; requests ask for all of them."""
    own = f"s{number}.test"
    return [own, f"*.{own}", f".d{number}.test", f"www.p{number}.*", f"~^(?<w>[a-z]+)-(?<x>\\d+)\\.r{number}\\.test$"]


def _server(site: Site) -> str:
    kinds = names(site.number)
    listed = [kinds[0], *site.chance.sample(kinds[1:], site.chance.randrange(len(kinds)))]
    lines = [f"listen 127.0.0.1:{site.place.port};", f"listen 127.0.0.1:{site.place.behind} proxy_protocol;"]
    lines.append("server_name " + " ".join(f'"{name}"' for name in listed) + ";")
    lines += [f"root {site.place.www};"] if site.chance.randrange(12) else []
    own = site.seldom(*configuration_pieces.SERVER_ONLY, of=3) + site.seldom(*configuration_pieces.SERVER_ONLY, of=5)
    lines += _modifiers(site, of=6) + list({line.split()[0]: line for line in own}.values())
    lines += [f"{field} always;" for field in FIELDS] if site.chance.randrange(3) else []
    lines += _error_pages(site)
    lines += site.seldom(*configuration_pieces.REWRITES, of=5) + site.seldom(
        *(
            line
            for line in configuration_pieces.IFS
            if not any(word in line for word in configuration_pieces.NOT_IN_SERVERS)
        ),
        of=8,
    )
    lines += [location for name in _patterns(site, "/", 9) for location in _location(site, name, depth=0)]
    for name in ("@named", "@other"):
        lines += [f"location {name} {{", *_indented(_content(site, name, nested=False)), "}"]
    lines += _auth_check(site)
    if any("$remote_addr ~" in line for line in lines):
        # What a condition has asked for stays the same in nginx, whatever address is found behind it.
        lines = [line for line in lines if "set_real_ip_from" not in line]
    if any("ssi on" in line or "slice" in line for line in lines):
        # Pages of SSI get what is added in the middle of what is included; slices end nowhere in nginx.
        lines = [line for line in lines if "addition_types" not in line and "_before_body" not in line]
    if any(word in line for word in MAKES_SUBREQUESTS for line in lines):
        # These end a subrequest; in nginx the whole connection.
        lines = [re.sub(r"\breturn (408|444|499);", "return 410;", line).replace("=444", "=404") for line in lines]
        # In nginx the address that one finds is from then on the connection's.
        lines = [line for line in lines if not line.startswith(" ") or "set_real_ip_from" not in line]
    return "server {\n" + "\n".join(_indented(lines)) + "\n}"


def _auth_check(site: Site) -> list[str]:
    """Where `auth_request` asks."""
    status = site.chance.choice([200, 204, 204, 401, 403, 500])
    return ["location = /auth-check {", f"    internal; return {status};", "}",
            "location = /mirror {", "    internal; proxy_pass http://app/mirrored; proxy_pass_request_body off;",
            '    proxy_set_header Content-Length "";', "}"]  # fmt: skip


def _patterns(site: Site, outer: str, most: int) -> list[str]:
    """Locations of one level, each once, as nginx wants them; nested ones lie within `outer`."""
    found: dict[str, str] = {}
    for _ in range(site.chance.randrange(1, most)):
        kind = site.chance.choice(["", "", "", "", "^~", "=", "~", "~*"])
        if kind in ("~", "~*"):
            found.setdefault(f"{kind} {configuration_pieces.pick(site.chance, configuration_pieces.REGEXES)}", kind)
            continue
        path = configuration_pieces.pick(site.chance, configuration_pieces.PREFIXES)
        if path.startswith(outer):
            # A prefix counts once, whether it stops the search for regular expressions or not.
            key = f"= {path}" if kind == "=" else path
            found.setdefault(key, kind)
    return [_spelled(key, kind) for key, kind in found.items()]


def _spelled(key: str, kind: str) -> str:
    path = key.partition(" ")[2] if kind in ("~", "~*", "=") else key
    return f'{kind} "{path}"' if kind else f'"{path}"'


def _location(site: Site, name: str, *, depth: int) -> list[str]:
    inside = _content(site, name, nested=depth > 0)
    exact = name.startswith("=")
    if depth < 2 and not exact and site.chance.randrange(6) == 0:
        outer = "/" if name.startswith("~") else name.partition('"')[2].rstrip('"')
        regular = [n for n in _patterns(site, outer, 4) if n.startswith("~") or not name.startswith("~")]
        inside += [line for inner in regular for line in _location(site, inner, depth=depth + 1)]
    return [f"location {name} {{", *_indented(inside), "}"]


def _content(site: Site, name: str, *, nested: bool) -> list[str]:
    makers: list[Maker] = [*[_static] * 5, _returns, _returns, _rewrites, _rewrites, _proxied, _proxied, _tries, _tries]
    lines = site.chance.choice([*makers, _refused, _conditions, _conditions])(site)
    if name.startswith("@"):
        lines = [line for line in lines if not line.startswith(("alias ", "internal"))]
        lines = [_without_uri(line) for line in lines]
    if name.startswith("~"):
        lines = [_captured_alias(site, line) for line in lines]
        lines = [_without_uri(line) for line in lines]
    if not any(line.startswith(("proxy_pass", "return", "try_files", "alias", "root")) for line in lines):
        lines += site.seldom(f"root {site.place.www}/other;", of=8)
    lines += _modifiers(site, of=7) + _error_pages(site, of=6)
    return lines + ([f"{field}{site.one_of(' always', '')};" for field in FIELDS] if site.chance.randrange(2) else [])


def _without_uri(line: str) -> str:
    """Where a prefix cannot be replaced, proxy_pass may have no path without variables."""
    return re.sub(r"proxy_pass http://app/[^$;]*;", "proxy_pass http://app;", line)


def _captured_alias(site: Site, line: str) -> str:
    """An alias is the whole path where the location is a regular expression."""
    return f"alias {site.place.www}/$1;" if line.startswith("alias ") else line


def _static(site: Site) -> list[str]:
    www = site.place.www
    kinds = ["", "", "", f"alias {www}/a/;", f"alias {www}/;", "autoindex on;", "autoindex on;",
             "internal;", "empty_gif;", "index b.txt index.html;", "index /b.txt;", "index none.html a$args.html;",
             "autoindex on; autoindex_format json;", "autoindex on; autoindex_format xml;",
             "gzip_static on;", "gzip_static always; gunzip on;", f"alias {www}$uri;",
             "autoindex on; autoindex_format jsonp;", f"root {www}/$arg_q;", f"alias {www}/$arg_q;",
             "index $cookie_c.html index.html;", "gzip_static on; gunzip on;", f"root {www}/a/..;",
             f"alias {www}/a;", f"alias {www}/b.txt;"]  # fmt: skip
    return [line for line in [site.chance.choice(kinds)] if line]


def _returns(site: Site) -> list[str]:
    return [configuration_pieces.pick(site.chance, configuration_pieces.RETURNS)]


def _rewrites(site: Site) -> list[str]:
    count = site.chance.randrange(1, 4)
    lines = [configuration_pieces.pick(site.chance, configuration_pieces.REWRITES) for _ in range(count)]
    if lines.count("rewrite_log on;") > 1:  # which may stand once
        lines = [*dict.fromkeys(lines)]
    return lines + site.seldom(*configuration_pieces.RETURNS, of=3)


def _conditions(site: Site) -> list[str]:
    return [
        configuration_pieces.pick(site.chance, configuration_pieces.IFS) for _ in range(site.chance.randrange(1, 3))
    ] + site.seldom(*configuration_pieces.REWRITES, of=3)


def _proxied(site: Site) -> list[str]:
    way = configuration_pieces.pick(site.chance, configuration_pieces.PASSES)
    count = site.chance.randrange(0, 3)
    more = [line for line in site.chance.sample(configuration_pieces.PROXY, count) if line.split()[0] not in way]
    if "slice" in way:  # a key without the slice would mix the slices up
        more = [line for line in more if "proxy_cache" not in line]
    kinds = {line.split()[0]: line for line in more}
    if "proxy_pass_request_body" in kinds:  # a body that nothing announces would be the next request
        kinds.pop("proxy_set_body", None)
    return [way, *kinds.values()]


def _tries(site: Site) -> list[str]:
    return [f"try_files {configuration_pieces.pick(site.chance, configuration_pieces.TRIES)};"]


def _refused(site: Site) -> list[str]:
    return [configuration_pieces.pick(site.chance, configuration_pieces.ACCESS)]


def _modifiers(site: Site, *, of: int) -> list[str]:
    """Directives that change an answer, each kind at most once."""
    some = [
        configuration_pieces.pick(site.chance, group)
        for group in configuration_pieces.MODIFIERS
        if site.chance.randrange(of * 3) == 0
    ]
    return [line.replace("WWW", site.place.www) for line in some]


def _error_pages(site: Site, *, of: int = 3) -> list[str]:
    pages = site.seldom(*configuration_pieces.ERROR_PAGES, of=of)
    return pages + (site.seldom("recursive_error_pages on;", of=3) if pages else [])


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
