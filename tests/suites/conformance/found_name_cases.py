"""What the generator found of hosts and paths that are spelled oddly: each stays here as a case."""

from __future__ import annotations

from dataclasses import replace

from panel.rendering.spec import AccessRule, Header, Listen, Location, ServerBlock, SiteSpec
from tests.suites.conformance.expected_responses import Expected, fixed, one
from tests.suites.conformance.world import World

FILES = {
    "named/secret.txt": "secret",
    "named/index.html": "index of names",
    "named/there/secret.txt": "the block's own",
}


def final_dots_of_hosts(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A host's final dot is no part of its name (RFC 3986 section 3.2.2), whatever kind of name it is."""

    def says(name: str, *names: str) -> ServerBlock:
        return ServerBlock((Listen(world.port),), names, locations=(fixed("", "/", name),))

    moved = Location("", "/", "return", return_code=301, return_value="https://$host/x")
    there = ServerBlock((Listen(world.port),), ("moved.test",), locations=(moved,))
    said = ServerBlock(
        (Listen(world.port),),
        ("said.test",),
        headers=(Header("X-Place", "$host"),),
        locations=(fixed("", "/", "said"),),
    )
    blocks = (says("default", "a.test"), says("all", "*.w.test"), says("both", ".b.test"), there, said)
    return SiteSpec("dots", blocks), [
        Expected("/", 200, "default", host="a.test."),
        Expected("/", 200, "default", host="none.test."),
        Expected("/", 200, "all", host="x.w.test."),
        Expected("/", 200, "default", host="w.test."),
        Expected("/", 200, "both", host="b.test."),
        Expected("/", 200, "both", host="x.b.test."),
        Expected("/", 301, headers={"location": "https://moved.test/x"}, host="Moved.test."),
        Expected("/", 200, "said", {"x-place": "said.test"}, host="said.test."),
        Expected("/", 200, "said", {"x-place": "said.test"}, host="said.test"),
    ]


def marks_in_paths(world: World) -> tuple[SiteSpec, list[Expected]]:
    """What follows an encoded ? is a part of the path: it opens no other file to who may have this one."""
    spec = one(
        world,
        "marks",
        Location("", "/", "deny"),
        Location("~", r"\.css$", "static"),
        Location("", "/named/", "static", try_files=("$uri", "/named/index.html")),
        Location("~", r"^/named/s.*t$", "deny"),
    )
    return spec, [
        Expected("/named/secret.txt", 403),
        Expected("/named/secret.txt%3F.css", 404),
        Expected("/named/secret.txt%3Fa", 200, "index of names"),
        Expected("/named/secret.txt?.css", 403),
    ]


def fallback_to_a_redirect(world: World) -> tuple[SiteSpec, list[Expected]]:
    """`$uri` of a redirect that a fallback leads to is the fallback's path."""
    spec = one(
        world,
        "fallback-moved",
        Location("", "/named/", "static", try_files=("$uri", "/moved.html")),
        Location("~", r"\.html$", "return", return_code=302, return_value="https://x.test/?u=$uri&v=${uri}"),
    )
    moved = {"location": "https://x.test/?u=/moved.html&v=/moved.html"}
    return spec, [
        Expected("/named/none", 302, headers=moved),
        Expected("/named/none?q=1", 302, headers=moved),
        Expected("/named/secret.txt", 200, "secret"),
    ]


def above_the_root(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A path that leads above the root is none, by whatever dots; one that leads to it is."""
    spec = one(world, "above", fixed("=", "/", "root"), fixed("", "/", "below"))
    above = ("/..", "//..", "/../", "/a/../..", "/%2e%2e", "/../a")
    return spec, [Expected(path, 400) for path in above] + [Expected("/a/../", 200, "root"), Expected("/..a", 200)]


def folders_that_are_not_there(world: World) -> tuple[SiteSpec, list[Expected]]:
    """A location holds before its folder is there: nobody gets another folder's files, or comes in unasked."""
    others = (AccessRule("allow", "10.0.0.0/8"), AccessRule("deny", "all"))
    spec = one(
        world,
        "absent",
        Location("", "/there/", "static", root=world.www),
        Location("", "/later/", "static", access_rules=others),
        Location("", "/never/", "deny"),
        Location("", "/marked/", "static", headers=(Header("X-Place", "marked", always=True),)),
    )
    spec = replace(spec, blocks=(replace(spec.blocks[0], root=f"{world.www}/named"),))
    return spec, [
        Expected("/there/secret.txt", 404),
        Expected("/later/secret.txt", 403),
        Expected("/never/secret.txt", 403),
        Expected("/marked/secret.txt", 404, headers={"x-place": "marked"}),
        Expected("/secret.txt", 200, "secret"),
    ]


SITES = (above_the_root, folders_that_are_not_there, final_dots_of_hosts, marks_in_paths, fallback_to_a_redirect)
