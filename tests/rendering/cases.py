"""The sites of the golden files: one per thing that an admin does."""

from __future__ import annotations

from pathlib import Path

from panel.rendering.spec import (
    AccessRule,
    BasicAuth,
    Cache,
    CacheTime,
    ClientCertificates,
    ErrorPage,
    Header,
    Listen,
    Location,
    Maintenance,
    PhpPool,
    RateLimit,
    Rewrite,
    ServerBlock,
    SiteSpec,
    TlsFiles,
    Upstream,
    UpstreamServer,
    WebServerSpec,
)

BCRYPT = "$2y$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"
AUTHORITY = Path(__file__).parent / "client_authority"  # valid until 2126
TLS = TlsFiles("shop", "/etc/paddock/tls/shop.pem", "/etc/paddock/tls/shop.key")
HTTP = (Listen(80), Listen(80, "::"))
HTTPS = (Listen(443, tls=True, http2=True), Listen(443, "::", tls=True, http2=True))
PHP = PhpPool("main", "unix:/run/php/php8.2-fpm.sock")

WEB_SERVERS = {
    "nginx": WebServerSpec("nginx", "sites", "/etc/nginx", "/var/log", "1.22.1", site_roots=("/srv",)),
    "apache": WebServerSpec("apache", "sites", "/etc/apache2", "/var/log", "2.4.71", site_roots=("/srv",)),
    "openlitespeed": WebServerSpec(
        "openlitespeed", "vhosts", "/usr/local/lsws/conf", "/var/log", "1.9.1", site_roots=("/srv",)
    ),
    "native": WebServerSpec("native", "conf_d", "/etc/gallop", "/var/log", "0.1.0", site_roots=("/srv",)),
}


def static() -> SiteSpec:
    assets = Location("", "/assets/", "static", expires="30d", headers=(Header("X-Kind", "asset"),))
    block = ServerBlock(
        HTTP,
        ("www.example.org", "example.org"),
        root="/srv/example",
        index=("index.html",),
        access_log="/var/log/sites/example.access.log",
        error_log="/var/log/sites/example.error.log",
        error_log_level="warn",
        locations=(Location("", "/", "static", try_files=("$uri", "$uri/", "=404")), assets),
    )
    return SiteSpec("static", (block,))


def wordpress() -> SiteSpec:
    block = ServerBlock(
        (*HTTP, *HTTPS),
        ("blog.example",),
        root="/srv/blog",
        index=("index.php", "index.html"),
        tls=TLS,
        redirect_to_https=True,
        hsts_max_age_s=31536000,
        client_max_body_mb=64,
        locations=(
            Location("", "/", "static", try_files=("$uri", "$uri/", "/index.php?$args")),
            Location("~*", r"/(?:uploads|files)/.*\.php$", "deny"),
            Location("~", r"\.php$", "php", php_pool="main", read_timeout_s=120),
        ),
    )
    settings = (("memory_limit", "256M"), ("upload_max_filesize", "64M"))
    return SiteSpec("wordpress", (block,), php_pools=(PhpPool("main", PHP.address, settings),))


def path_info() -> SiteSpec:
    php = Location("~", r"[^/]\.php(/|$)", "php", php_pool="main", split_path_info=True)
    block = ServerBlock(HTTP, ("cms.example",), root="/srv/cms", index=("index.php",), locations=(php,))
    return SiteSpec("path-info", (block,), php_pools=(PHP,))


def proxy() -> SiteSpec:
    sockets = Location("", "/socket/", "proxy", upstream="app", websocket=True, read_timeout_s=3600)
    api = Location(
        "",
        "/api/",
        "proxy",
        upstream="app",
        proxy_uri="/v2/",
        connect_timeout_s=5,
        read_timeout_s=30,
        request_headers=(Header("X-Tenant", "acme"), Header("host", "app.internal")),
    )
    block = ServerBlock(HTTP, ("app.example",), locations=(Location("", "/", "proxy", upstream="app"), api, sockets))
    return SiteSpec("proxy", (block,), upstreams=(Upstream("app", (UpstreamServer("127.0.0.1:8080"),)),))


def uwsgi() -> SiteSpec:
    kept = Location(
        "",
        "/kept/",
        "proxy",
        upstream="app",
        upstream_protocol="uwsgi",
        read_timeout_s=30,
        request_headers=(Header("X-Tenant", "acme"), Header("X-Gone", "")),
        cache=Cache((CacheTime((200, 301, 302), 60),), status_header=True),
    )
    several = Location("", "/several/", "proxy", upstream="several", upstream_protocol="uwsgi")
    plain = Location("", "/", "proxy", upstream="app", upstream_protocol="uwsgi")
    block = ServerBlock(HTTP, ("python.example",), locations=(plain, kept, several))
    servers = (UpstreamServer("127.0.0.1:3031"), UpstreamServer("unix:/run/other.sock"))
    upstreams = (Upstream("app", (UpstreamServer("unix:/run/app.sock"),)), Upstream("several", servers))
    return SiteSpec("uwsgi", (block,), upstreams=upstreams)


def grpc() -> SiteSpec:
    orders = Location(
        "",
        "/shop.Orders/",
        "proxy",
        upstream="app",
        upstream_protocol="grpc",
        connect_timeout_s=5,
        read_timeout_s=3600,
        request_headers=(Header("X-Tenant", "acme"),),
    )
    stock = Location("", "/shop.Stock/", "proxy", upstream="app", upstream_protocol="grpc", upstream_tls=True)
    block = ServerBlock(HTTPS, ("api.example",), tls=TLS, locations=(Location("", "/", "deny"), orders, stock))
    return SiteSpec("grpc", (block,), upstreams=(Upstream("app", (UpstreamServer("127.0.0.1:50051"),)),))


def balancing() -> SiteSpec:
    pool = (
        UpstreamServer("10.0.0.1:8080", weight=3, max_fails=2, fail_timeout_s=30),
        UpstreamServer("10.0.0.2:8080"),
        UpstreamServer("[fd00::3]:8080", backup=True),
        UpstreamServer("10.0.0.4:8080", down=True),
    )
    least = Upstream("least", pool, balancing="least_conn", keepalive=32)
    sticky = Upstream("sticky", pool[:2], balancing="ip_hash", keepalive=0)
    block = ServerBlock(
        HTTP,
        ("pool.example",),
        locations=(
            Location("", "/", "proxy", upstream="least"),
            Location("", "/cart/", "proxy", upstream="sticky", upstream_tls=True),
        ),
    )
    return SiteSpec("balancing", (block,), upstreams=(least, sticky))


def redirects() -> SiteSpec:
    to_www = ServerBlock(
        HTTP,
        ("example.net",),
        locations=(Location("", "/", "return", return_code=301, return_value="https://www.example.net$request_uri"),),
    )
    main = ServerBlock(
        HTTP,
        ("www.example.net",),
        root="/srv/www",
        locations=(
            Location("=", "/old", "return", return_code=302, return_value="/new?from=old"),
            Location("~", r"^/user/(\d+)$", "return", return_code=308, return_value="/people/$1"),
            Location("=", "/health", "return", return_code=200, return_value="ok\n"),
            Location("=", "/gone", "return", return_code=410),
        ),
    )
    return SiteSpec("redirects", (to_www, main))


def logs() -> SiteSpec:
    def block(name: str, form: str, **more: object) -> ServerBlock:
        log = f"/var/log/sites/{name}.access.log"
        place = (Location("", "/", "static"), Location("", "/raw/", "static", gzip="off"))
        given = {"root": "/srv/logs", "access_log": log, "access_log_format": form, "locations": place, **more}
        return ServerBlock(HTTP, (f"{name}.example",), **given)  # type: ignore[arg-type]

    return SiteSpec(
        "logs",
        (
            block("common", "common", client_max_header_kb=16),
            block("timed", "timed", brotli="on", gzip="on", gzip_types=("text/css", "application/json")),
            block("json", "json", brotli="off"),
        ),
    )


def tls() -> SiteSpec:
    block = ServerBlock(
        (Listen(80), Listen(443, tls=True, http2=True, http3=True, default_server=True)),
        ("secure.example",),
        root="/srv/secure",
        tls=TLS,
        hsts_max_age_s=63072000,
        locations=(Location("", "/", "static"),),
    )
    return SiteSpec("tls", (block,))


def client_certificates() -> SiteSpec:
    """One server block requires certificates of clients, with revocation lists; one accepts them."""
    folder = "/etc/paddock/clients"
    ca, crl = (AUTHORITY / "ca.pem").read_text(), (AUTHORITY / "crl.pem").read_text()
    required = ClientCertificates(True, ca, f"{folder}/client-ca-1.pem", crl, f"{folder}/client-crl-1.pem", depth=2)
    told = Location(
        "", "/", "proxy", upstream="app", request_headers=(Header("X-Client", "$ssl_client_s_dn $ssl_client_verify"),)
    )
    blocks = (
        ServerBlock((*HTTP, *HTTPS), ("a.example",), root="/srv/a", tls=TLS, redirect_to_https=True,
                    client_certificates=required, locations=(Location("", "/", "static"),)),
        ServerBlock(HTTPS, ("b.example",), tls=TLS, locations=(told,),
                    client_certificates=ClientCertificates(False, ca, f"{folder}/client-ca-1.pem")),
    )  # fmt: skip
    return SiteSpec("clients", blocks, upstreams=(Upstream("app", (UpstreamServer("127.0.0.1:3000"),)),))


def challenges() -> SiteSpec:
    """ACME challenges are answered before everything else that the site says."""
    redirecting = ServerBlock(
        (*HTTP, *HTTPS), ("a.example", "www.a.example"), root="/srv/a", tls=TLS, redirect_to_https=True
    )
    everything = ServerBlock(
        (*HTTP, Listen(8443, tls=True)),
        ("b.example",),
        root="/srv/b",
        tls=TLS,
        index=("index.php",),
        try_files=("$uri", "=404"),
        rewrites=(Rewrite("^/(.*)$", "/index.php", "last"),),
        locations=(
            Location(
                "",
                "/",
                "proxy",
                upstream="app",
                basic_auth=BasicAuth("Staff", (("ann", BCRYPT),), "/etc/paddock/htpasswd/b"),
            ),
            Location("~", r"/\.", "deny"),
            Location("~", r"\.php$", "php", php_pool="main"),
        ),
    )
    own = Location("", "/.well-known/acme-challenge/", "static", root="/srv/other")
    upstream = Upstream("app", (UpstreamServer("127.0.0.1:9000"),))
    third = ServerBlock(HTTP, ("c.example",), root="/srv/c", locations=(own, Location("", "/", "static")))
    folder = "/etc/paddock/challenges"
    return SiteSpec("challenges", (redirecting, everything, third), (upstream,), (PHP,), challenge_folder=folder)


def headers() -> SiteSpec:
    block = ServerBlock(
        HTTP,
        ("headers.example",),
        root="/srv/headers",
        headers=(Header("X-Frame-Options", "DENY"), Header("X-Served-By", "paddock", always=False)),
        gzip="on",
        gzip_types=("text/html", "text/css", "application/json"),
        locations=(
            Location(
                "~*", r"\.(?:css|js)$", "static", expires="max", headers=(Header("X-Frame-Options", "SAMEORIGIN"),)
            ),
            Location("", "/api/", "static", expires="-1", gzip="off"),
            Location("", "/zip/", "static", expires="modified 1h", gzip="on"),
        ),
    )
    return SiteSpec("headers", (block,))


def access() -> SiteSpec:
    auth = BasicAuth('Staff "only"', (("ann", BCRYPT), ("bob", BCRYPT)), "/etc/paddock/htpasswd/access-staff")
    office = (AccessRule("allow", "10.0.0.0/8"), AccessRule("allow", "fd00::/8"), AccessRule("deny", "all"))
    block = ServerBlock(
        HTTP,
        ("intra.example",),
        root="/srv/intra",
        locations=(
            Location("", "/staff/", "static", basic_auth=auth, access_rules=office),
            Location("", "/partners/", "static", access_rules=(AccessRule("deny", "192.0.2.7"),)),
            Location("^~", "/.git/", "deny"),
        ),
    )
    return SiteSpec("access", (block,))


def limits() -> SiteSpec:
    block = ServerBlock(
        HTTP,
        ("limits.example",),
        root="/srv/limits",
        client_max_body_mb=8,
        locations=(
            Location("=", "/login", "static", rate_limit=RateLimit(5, burst=10), client_max_body_mb=1),
            Location("", "/download/", "static", connection_limit=4, rate_limit=RateLimit(50)),
        ),
    )
    return SiteSpec("limits", (block,))


def cache() -> SiteSpec:
    pages = Cache(
        (CacheTime((200, 301), 600), CacheTime((404,), 60)), ("wordpress_logged_in_*", "cart"), status_header=True
    )
    api = Cache((CacheTime((200,), 5),), skip_queries=True, stale_on_error=False, key="$host$uri")
    block = ServerBlock(
        HTTP,
        ("cache.example",),
        root="/srv/cache",
        headers=(Header("X-Frame-Options", "DENY"),),
        locations=(
            Location("", "/", "proxy", upstream="app", cache=pages),
            Location("", "/api/", "proxy", upstream="app", cache=api),
            Location("~", r"\.php$", "php", php_pool="main", cache=pages),
        ),
    )
    app = Upstream("app", (UpstreamServer("127.0.0.1:3000"),))
    return SiteSpec("cache", (block,), upstreams=(app,), php_pools=(PHP,), cache_mb=200)


def redirecting() -> SiteSpec:
    shop = Location("", "/shop/", "static", rewrites=(Rewrite("^/shop/item/(.*)$", "/store/$1", "permanent"),))
    block = ServerBlock(
        HTTP,
        ("old.example",),
        root="/srv/old",
        rewrites=(
            Rewrite("^/feed$", "https://feeds.example/news"),
            Rewrite(r"^/(.*)\.htm$", "/$1.html?", "permanent"),
        ),
        locations=(Location("", "/", "static"), shop),
    )
    return SiteSpec("redirecting", (block,))


def rewritten() -> SiteSpec:
    api = Location(
        "", "/api/", "proxy", upstream="app", rewrites=(Rewrite("^/api/(.*)$", "/$1", "break"),), websocket=True
    )
    shop = Location(
        "",
        "/shop/",
        "static",
        rewrites=(
            Rewrite(r"^/shop/item/(?<id>\d+)$", "/api/item?id=$id", "last"),
            Rewrite("^/shop/(.*)$", "/store/$1"),
        ),
    )
    block = ServerBlock(
        HTTP,
        ("moved.example",),
        root="/srv/moved",
        rewrites=(
            Rewrite("^/blog/(.*)$", "/news/$1"),
            Rewrite("^/feed$", "https://feeds.example/news"),
            Rewrite(r"^/(.*)\.htm$", "/$1.html?", "permanent"),
        ),
        locations=(Location("", "/", "static"), shop, api),
    )
    return SiteSpec("rewritten", (block,), upstreams=(Upstream("app", (UpstreamServer("127.0.0.1:3000"),)),))


def confined() -> SiteSpec:
    """Paths that are checked while serving, beside some that need no check."""
    block = ServerBlock(
        HTTP,
        ("confined.example",),
        root="/srv/confined",
        rewrites=(Rewrite(r"^/([a-z]+)\.htm$", "/$1.html"), Rewrite("^/(.)(.)-(.*)$", "/$1$2/$3", "last")),
        locations=(
            Location("", "/", "static", try_files=("$uri", "/cache/$http_host$request_uri/", "/by/$http_x?$args")),
            Location("", "/static", "static", alias="/srv/confined/static"),
            Location("~", r"^/u/(\w+)/(.*)$", "static", try_files=("/users/$1/$2", "/$1$http_x", "=404")),
        ),
    )
    return SiteSpec("confined", (block,))


def error_pages() -> SiteSpec:
    block = ServerBlock(
        HTTP,
        ("errors.example",),
        root="/srv/errors",
        access_log="off",
        error_pages=(
            ErrorPage((404,), "/404.html"),
            ErrorPage((500, 502, 503, 504), "/50x.html"),
            ErrorPage((403,), "https://login.example/"),
            ErrorPage((410,), "/gone.html", response=404),
        ),
        locations=(Location("", "/", "static"),),
    )
    return SiteSpec("error-pages", (block,))


def names() -> SiteSpec:
    exact = ServerBlock(HTTP, ("a.example", "b.example"), root="/srv/exact")
    leading = ServerBlock(HTTP, ("*.example", ".shop.example"), root="/srv/leading")
    trailing = ServerBlock(HTTP, ("mail.*",), root="/srv/trailing")
    regex = ServerBlock(HTTP, (r"~^(?<tenant>[a-z]{2,8})\.cloud\.test$",), root="/srv/regex")
    default = ServerBlock((Listen(80, default_server=True),), (), root="/srv/default")
    return SiteSpec("names", (exact, leading, trailing, regex, default))


def nested() -> SiteSpec:
    block = ServerBlock(
        HTTP,
        ("nested.example",),
        root="/srv/nested",
        locations=(
            Location("=", "/", "static", root="/srv/home", index=("home.html",)),
            Location("", "/", "static"),
            Location("", "/docs/", "static", alias="/srv/manuals/", autoindex=True),
            Location("", "/docs/old/", "static", root="/srv/archive"),
            Location("^~", "/images/", "static", root="/srv/media"),
            Location("~", r"^/photos/(?<year>\d{4})/(.+\.jpg)$", "static", alias="/srv/photos/$year-$2"),
            Location("~*", r"\.(?:gif|jpg|png)$", "static", expires="7d"),
        ),
    )
    return SiteSpec("nested", (block,))


def hostile() -> SiteSpec:
    """Values full of what the grammars are made of; each must arrive as it is."""
    value = 'a"b\'c; {d} \\e\\\\ #f %{g} ${h} <i> $$j \\"k'
    auth = BasicAuth(value.replace("${h}", "$h"), (("o'neil", BCRYPT),), "/etc/paddock/htpasswd/hostile")
    block = ServerBlock(
        HTTP,
        ("hostile.example",),
        root='/srv/it\'s; "here" {now} #1 \\n 100%',
        index=("in dex;.html",),
        headers=(Header("X-Odd", value.replace("${h}", "$${h}")),),
        locations=(
            Location("=", "/a b;{}#\"'\\", "return", return_code=200, return_value="two\nlines; }\t$$ \"'\\n"),
            Location("~", r"^/x{2,3}[;#\"'](?:a|b)\\$", "static"),
            Location("", "/locked/", "static", basic_auth=auth),
        ),
    )
    return SiteSpec("hostile", (block,))


def maintenance() -> SiteSpec:
    """The page before rewrites, access rules, redirects and challenges of a site with TLS."""
    secure = ServerBlock(
        (*HTTP, *HTTPS),
        ("a.example",),
        root="/srv/a",
        rewrites=(Rewrite("^/old$", "/new", "last"),),
        error_pages=(ErrorPage((503,), "/busy.html"),),
        headers=(Header("X-Frame-Options", "DENY"),),
        tls=TLS,
        redirect_to_https=True,
        locations=(Location("~", r"\.php$", "php", php_pool="main"), Location("=", "/away", "return", return_code=404)),
    )
    plain = ServerBlock(HTTP, ("b.example",), root="/srv/b")
    page = Maintenance('Back at 10:00 & "thanks" for 100% patience, {$x}', 300)
    folder = "/etc/paddock/challenges"
    return SiteSpec("maintenance", (secure, plain), (), (PHP,), challenge_folder=folder, maintenance=page)


CASES = (
    static, wordpress, path_info, proxy, balancing, redirects, tls, headers, access, limits, error_pages, names, nested,
    hostile, logs, cache, redirecting, rewritten, confined, challenges, maintenance, client_certificates,
    uwsgi, grpc,
)  # fmt: skip
