"""Values made of what configuration grammars are made of, and the fields they are put into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from panel.rendering.spec import (
    AccessRule,
    BasicAuth,
    Cache,
    CacheTime,
    ErrorPage,
    Header,
    Listen,
    Location,
    PhpPool,
    Rewrite,
    ServerBlock,
    SiteSpec,
    Upstream,
    UpstreamServer,
)
from tests.rendering.cases import BCRYPT

MARKS = [
    ";", "{", "}", "\n", "\r", "\0", '"', "'", "$", "\\", "..", "#", " ", "\t", "<", ">", "/", "%", "%{", "${", "`",
    "</VirtualHost>", "</Location>", "<<<END", "END_rules", "\\\n", "(", ")", "[", "]", "|", "?", "*", "+", "^", "=",
    "\u037e", "\uff1b", "\uff5b", "\u2028", "\u00a0", "\u0085", "\u202e", "é", "expr=", "off", "on", "a", "b1", "=404",
    "$uri", "$host", "$$", "include /etc/passwd;", "http://", "unix:", "~", "@", ":", ",", "&", "!", "-", "\x7f",
]  # fmt: skip
values = st.lists(st.sampled_from(MARKS) | st.text(max_size=3), min_size=1, max_size=8).map("".join).filter(bool)
HARMLESS = "plain"

Build = Callable[[str], SiteSpec]


def site(block: ServerBlock, **more: object) -> SiteSpec:
    return replace(SiteSpec("site", (block,)), **more)  # type: ignore[arg-type]


def block(**more: object) -> ServerBlock:
    return replace(ServerBlock((Listen(8080),), ("a.test",), root="/srv/a"), **more)  # type: ignore[arg-type]


def located(**more: object) -> SiteSpec:
    fields: dict[str, object] = {"match": "", "pattern": "/x/", "handler": "static", **more}
    upstream = Upstream("up", (UpstreamServer("127.0.0.1:1"),))
    pool = PhpPool("php", "unix:/run/php.sock")
    return site(block(locations=(Location(**fields),)), upstreams=(upstream,), php_pools=(pool,))  # type: ignore[arg-type]


def answer(value: str) -> SiteSpec:
    return located(handler="return", return_code=200, return_value=value)


def cached(**more: object) -> SiteSpec:
    return located(handler="proxy", upstream="up", cache=Cache((CacheTime((200,), 60),), **more))  # type: ignore[arg-type]


FIELDS: dict[str, Build] = {
    "site name": lambda v: replace(site(block()), name=v),
    "server name": lambda v: site(block(names=(v,))),
    "regex name": lambda v: site(block(names=("~" + v,))),
    "root": lambda v: site(block(root="/" + v)),
    "index": lambda v: site(block(index=(v,))),
    "block try_files": lambda v: site(block(try_files=("/" + v, "=404"))),
    "error page": lambda v: site(block(error_pages=(ErrorPage((404,), "/" + v),))),
    "header name": lambda v: site(block(headers=(Header(v, "x"),))),
    "header value": lambda v: site(block(headers=(Header("X-A", v),))),
    "access log": lambda v: site(block(access_log="/var/log/" + v)),
    "error log": lambda v: site(block(error_log="/var/log/" + v)),
    "error log level": lambda v: site(block(error_log="/var/log/e", error_log_level=v)),
    "gzip type": lambda v: site(block(gzip="on", gzip_types=(v,))),
    "listen address": lambda v: site(block(listens=(Listen(80, v),))),
    "exact path": lambda v: located(match="=", pattern="/" + v),
    "prefix": lambda v: located(pattern="/" + v),
    "final prefix": lambda v: located(match="^~", pattern="/" + v),
    "regex": lambda v: located(match="~", pattern=v),
    "regex nocase": lambda v: located(match="~*", pattern=v),
    "location root": lambda v: located(root="/" + v),
    "alias": lambda v: located(alias="/" + v),
    "regex alias": lambda v: located(match="~", pattern="^/(.*)$", alias="/" + v),
    "location index": lambda v: located(index=(v,)),
    "try_files": lambda v: located(try_files=("$uri", "/" + v)),
    "rewrite pattern": lambda v: site(block(rewrites=(Rewrite(v, "/new"),))),
    "rewrite": lambda v: site(block(rewrites=(Rewrite("^/(.*)$", v),))),
    "rewritten path": lambda v: site(block(rewrites=(Rewrite("^/(.*)$", f"/{v}", "last"),))),
    "location rewrite": lambda v: located(rewrites=(Rewrite(f"^/{v}", f"/{v}", "break"),)),
    "cache key": lambda v: cached(key=v),
    "cache cookie": lambda v: cached(skip_cookies=(v,)),
    "proxy uri": lambda v: located(handler="proxy", upstream="up", proxy_uri="/" + v),
    "request header": lambda v: located(handler="proxy", upstream="up", request_headers=(Header("X-A", v),)),
    "return body": answer,
    "return url": lambda v: located(handler="return", return_code=301, return_value=v),
    "location header": lambda v: located(headers=(Header("X-A", v),)),
    "expires": lambda v: located(expires=v),
    "access rule": lambda v: located(access_rules=(AccessRule("allow", v),)),
    "realm": lambda v: located(basic_auth=BasicAuth(v, (("ann", BCRYPT),), "/etc/ht")),
    "user name": lambda v: located(basic_auth=BasicAuth("r", ((v, BCRYPT),), "/etc/ht")),
    "password hash": lambda v: located(basic_auth=BasicAuth("r", (("ann", v),), "/etc/ht")),
    "password file": lambda v: located(basic_auth=BasicAuth("r", (("ann", BCRYPT),), "/etc/" + v)),
    "upstream name": lambda v: site(block(), upstreams=(Upstream(v, (UpstreamServer("127.0.0.1:1"),)),)),
    "upstream server": lambda v: site(block(), upstreams=(Upstream("up", (UpstreamServer(v),)),)),
    "php address": lambda v: replace(located(handler="php", php_pool="php"), php_pools=(PhpPool("php", v),)),
    "php setting": lambda v: replace(
        located(handler="php", php_pool="php"), php_pools=(PhpPool("php", "unix:/r", (("a", v),)),)
    ),
    "php setting name": lambda v: replace(
        located(handler="php", php_pool="php"), php_pools=(PhpPool("php", "unix:/r", ((v, "1"),)),)
    ),
}  # fmt: skip
HARMLESS_VALUES = {
    "listen address": "127.0.0.1", "error log level": "warn", "gzip type": "text/css", "access rule": "10.0.0.1",
    "expires": "7d", "return url": "/x", "upstream server": "127.0.0.1:2", "password hash": BCRYPT,
    "php address": "127.0.0.1:9000", "rewrite": "/new",
}  # fmt: skip
