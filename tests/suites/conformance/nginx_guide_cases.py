"""The worked examples of nginx's own documentation and configuration guides, with the answers these promise.

Sources: nginx.org, “How nginx processes a request”, “Server names” and the `location` directive; the location and
FastCGI examples of the usual configuration guides.
"""

from __future__ import annotations

from panel.rendering.spec import Listen, Location, PhpPool, ServerBlock, SiteSpec
from tests.suites.conformance.expected_responses import Expected, fixed, one
from tests.suites.conformance.world import World


def _named(world: World, text: str, *names: str, default: bool = False) -> ServerBlock:
    listen = (Listen(world.port, default_server=default),)
    return ServerBlock(listen, names, locations=(fixed("", "/", text),))


def guide_name_based_hosts(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Only the Host line decides; a name that no block has, or no name, goes to the port's default."""
    blocks = (
        _named(world, "org", "example.org", "www.example.org", default=True),
        _named(world, "net", "example.net", "www.example.net"),
        _named(world, "com", "example.com", "www.example.com"),
    )
    answers = {
        "example.org": "org", "www.example.org": "org", "example.net": "net", "www.example.net": "net",
        "example.com": "com", "www.example.com": "com", "EXAMPLE.com": "com", "example.com.": "com",
        "other.example": "org", "127.0.0.1": "org", f"www.example.com:{world.port}": "com",
    }  # fmt: skip
    found = [Expected("/", 200, text, host=host) for host, text in answers.items()]
    return SiteSpec("guide-hosts", blocks), [*found, Expected("/", 200, "org", host=None, version="1.0")]


def guide_wildcard_names(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Exact name, longest wildcard that begins with *, longest that ends with *; .name is both name and *.name."""
    blocks = (
        _named(world, "mail", "mail.*"),
        _named(world, "any", "*.example.org"),
        _named(world, "dot", ".example.net"),
        _named(world, "exact", "example.org", "www.example.org"),
        _named(world, "deep", "*.sub.example.org"),
        _named(world, "longer", "www.example.*"),
        _named(world, "default", "_", default=True),
    )
    answers = {
        "www.example.org": "exact", "example.org": "exact", "w1.example.org": "any", "www.sub.example.org": "deep",
        "www.sub.any.example.org": "any", "example.net": "dot", "www.example.net": "dot", "a.b.example.net": "dot",
        "mail.example.com": "mail", "mail.example.org": "any", "www.example.com": "longer", "example.com": "default",
    }  # fmt: skip
    return SiteSpec("guide-wildcards", blocks), [Expected("/", 200, text, host=host) for host, text in answers.items()]


def guide_locations(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Prefixes by length, regular expressions by order, ^~ that ends the search, = that is asked first."""
    spec = one(
        world,
        "guide-locations",
        fixed("", "/", "root"),
        fixed("", "/planet/", "planet"),
        fixed("", "/planet/blog", "blog"),
        fixed("~", r"IndexPage\.php$", "index page"),
        fixed("~", r"^/BlogPlanet(/|/index\.php)$", "BlogPlanet"),
        fixed("~*", r"\.(pl|cgi|perl|prl)$", "perl"),
        fixed("~*", r"\.(md|mdwn|txt|mkdn)$", "text"),
        fixed("^~", "/images/IndexPage/", "images"),
        fixed("=", "/", "exact"),
    )
    answers = {
        "/": "exact", "/?a=b": "exact", "/index.html": "root", "/planet/": "planet", "/planet": "root",
        "/planet/blog": "blog", "/planet/blog/about/": "blog", "/planet/blogs": "blog", "/IndexPage.php": "index page",
        "/planet/blog/IndexPage.php": "index page", "/IndexPage.php/": "root", "/indexpage.php": "root",
        "/BlogPlanet/": "BlogPlanet", "/BlogPlanet/index.php": "BlogPlanet", "/blogplanet/": "root",
        "/BlogPlanet": "root", "/BlogPlanet/index.php/": "root", "/images/IndexPage/": "images",
        "/images/IndexPage/IndexPage.php": "images", "/images/IndexPage": "root", "/planet/x.pl": "perl",
        "/x.CGI": "perl", "/README.md": "text", "/planet/blog/notes.MDWN": "text", "/x.txt.pl": "perl",
    }  # fmt: skip
    return spec, [Expected(path, 200, text) for path, text in answers.items()]


def guide_documentation_locations(world: World) -> tuple[SiteSpec, list[Expected]]:
    """The five configurations A to E of the documentation of `location`, with its five requests."""
    spec = one(
        world,
        "guide-documentation",
        fixed("=", "/", "A"),
        fixed("", "/", "B"),
        fixed("", "/documents/", "C"),
        fixed("^~", "/images/", "D"),
        fixed("~*", r"\.(gif|jpg|jpeg)$", "E"),
    )
    paths = {
        "/": "A", "/index.html": "B", "/documents/document.html": "C", "/images/1.gif": "D", "/documents/1.jpg": "E",
    }  # fmt: skip
    return spec, [Expected(path, 200, letter) for path, letter in paths.items()]


def guide_perl_site(world: World) -> tuple[SiteSpec, list[Expected]]:
    """Files below a root, and scripts that end in .pl handed to FastCGI."""
    block = ServerBlock(
        (Listen(world.port),),
        ("www.example.com", "example.com"),
        root=f"{world.www}/perl",
        index=("index.html", "index.htm"),
        locations=(
            Location("", "/", "static"),
            Location("~", r"\.pl$", "php", php_pool="fcgi"),
        ),
    )
    spec = SiteSpec("guide-perl", (block,), php_pools=(PhpPool("fcgi", world.php),))
    return spec, [
        Expected("/", 200, "index", host="example.com"),
        Expected("/blog/", 200, "blog index", host="www.example.com"),
        Expected("/tasks.pl?n=1", 200, "ran /tasks.pl n=1", host="example.com"),
        Expected("/username/roster.pl", 200, "ran /username/roster.pl ", host="example.com"),
        Expected("/username/none.pl", 404, host="example.com"),
    ]


FILES = {
    "perl/index.html": "index", "perl/index.htm": "other index", "perl/blog/index.htm": "blog index",
    "perl/tasks.pl": "<?php echo 'ran ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['QUERY_STRING'];",
    "perl/username/roster.pl": "<?php echo 'ran ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['QUERY_STRING'];",
}  # fmt: skip
SITES = (
    guide_name_based_hosts,
    guide_wildcard_names,
    guide_locations,
    guide_documentation_locations,
    guide_perl_site,
)
