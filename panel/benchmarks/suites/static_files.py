"""Suite `small-static-files`: ApacheBench with and without keep-alive on a page of 101 bytes."""

from __future__ import annotations

from panel.benchmarks.choices import Tool
from panel.benchmarks.suites import published
from panel.benchmarks.suites.definitions import Case, Content, Settings, Setup, Suite

SLUG = "small-static-files"
_PAGE = "<html><head><title>test</title></head><body><p>A page of one hundred and one bytes.</p></body></html>"
PAGE = _PAGE + "\n" * (101 - len(_PAGE))
_TITLES = {"no-keepalive": "A new connection for each request", "keepalive": "Keep-alive connections"}


def _case(slug: str, requests: int, concurrency: int, rounds: int) -> Case:
    return Case(
        slug=slug,
        title=_TITLES[slug],
        tool=Tool.AB,
        arguments={"requests": requests, "concurrency": concurrency, "keepalive": slug == "keepalive"},
        paths=("/test.html",),
        rounds=rounds,
        warmup_s=10 if rounds == 4 else 0,
        idle_s=0.5 if rounds == 4 else 0.0,
        source=slug,
        # Apache closes connections after a hundred requests, and ab counts some of these as failed.
        allowed_error_percent=1.0 if slug == "keepalive" else 0.0,
    )


SUITE = Suite(
    slug=SLUG,
    title="Small static files",
    about=(
        "ApacheBench on one small page, with and without keep-alive: the cost of connections, parsing, and responses."
    ),
    source=published.suite(SLUG)["source"],
    setups=(
        Setup("apache-prefork", "Apache, prefork", "apache", "apache-prefork", mpm="prefork"),
        Setup("apache-worker", "Apache, worker", "apache", "apache-worker", mpm="worker"),
        Setup("apache-event", "Apache, event", "apache", "apache-event", mpm="event"),
        Setup("nginx", "nginx", "nginx", "nginx"),
        Setup("gallop", "gallop", "native", protocols=("h1", "h2", "h3")),
        Setup("openlitespeed", "OpenLiteSpeed", "openlitespeed", protocols=("h1", "h2", "h3")),
    ),
    settings=Settings(workers=1),
    content=Content(texts=(("test.html", PAGE),)),
    full=(_case("no-keepalive", 200_000, 200, 4), _case("keepalive", 200_000, 200, 4)),
    # The concurrency equals prefork's initial number of processes, because it adds more only slowly.
    short=(_case("no-keepalive", 1_500, 5, 3), _case("keepalive", 4_000, 5, 3)),
    table="rounds",
    not_measured=(
        "LiteSpeed, the commercial web server. Paddock measures OpenLiteSpeed instead if the host has OpenLiteSpeed.",
    ),
)
