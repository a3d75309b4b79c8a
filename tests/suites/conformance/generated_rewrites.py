"""What generated sites rewrite and what they keep of applications' answers.

What the tables say of whole engines is left out where it would hide everything else: no rewrite fits a file that
try_files, an index or an error page leads to, and `break` stands only where nothing has led to its location.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from panel.rendering.spec import Cache, CacheTime, Location, Rewrite, ServerBlock

# No result of one is the path of another that comes before it, or nginx would go round.
BLOCK = [
    Rewrite("^/b/(.*)$", "/a/$1"),
    Rewrite("^/b/(.*)$", "/a/$1", "last"),
    Rewrite("^/ab(?:/(.*))?$", "/img/x.gif", "break"),
    Rewrite("^/ab/(.+)$", "/$1", "last"),
    Rewrite("^/A$", "/a/b/?own=1"),
    Rewrite("^/x(.gif)/(?<rest>[a-z]+)$", "/a/x$1?rest=$rest", "last"),
    Rewrite("^/empty/(.*)$", "/img/$1?", "last"),
    Rewrite("^/c.txt$", "/a/b/c.txt?was=c"),
    Rewrite("^/b.txt$", "/other/$host"),
    Rewrite("^/AB$", "/a", "redirect"),
    Rewrite("^/img/b(?:/.*)?$", "/b.txt?only=this?", "permanent"),
    Rewrite("^/A/(.*)$", "https://x.test/$1?a=1"),
    Rewrite("^/x.gif$", "https://$host/a/x.gif?", "permanent"),
]
INSIDE = [
    Rewrite("^(?:/.*)?/b/([^/]+)$", "/a/$1"),
    Rewrite("^/(?:.*/)?x.gif$", "/other/a/x.gif", "last"),
    Rewrite("^/(?:.*/)?c.txt$", "/style.css?c=1", "last"),
    Rewrite("^/a/(.*/)?x(.gif)$", "/img/x$2", "redirect"),
    Rewrite("^/(.*)/AB$", "/$1/ab", "permanent"),
    Rewrite("^/(?<first>a|img)/b$", "/info.php?first=$first", "last"),
    Rewrite("^/A(?:/.*)?$", "/info.php"),
    Rewrite("^/.*/ab$", "/b.txt?none?"),
]
PASSED = [Rewrite("^/a/(.*)$", "/passed/$1", "break"), Rewrite("^/(.+)$", "/v3/$1?by=break", "break")]

caches = st.builds(
    Cache,
    st.just((CacheTime((200, 301), 3600),)),
    skip_cookies=st.sampled_from([(), (), ("session",), ("logged_in_*", "session")]),
    skip_queries=st.booleans(),
    stale_on_error=st.booleans(),
)


def moved(draw: st.DrawFn, block: ServerBlock) -> ServerBlock:
    """The block with rewrites of its own or of some locations, or, mostly, without any."""
    kind = draw(st.sampled_from(["", "", "", "block", "inside", "inside"]))
    if kind == "block":
        return replace(block, rewrites=draw(_some(BLOCK)))
    return replace(block, locations=tuple(_moved(draw, item) for item in block.locations)) if kind else block


def _some(items: list[Rewrite]) -> st.SearchStrategy[tuple[Rewrite, ...]]:
    return st.lists(st.sampled_from(items), min_size=1, max_size=3, unique_by=lambda item: item.pattern).map(tuple)


def _moved(draw: st.DrawFn, location: Location) -> Location:
    if location.handler not in ("static", "proxy") or location.match == "=" or draw(st.booleans()):
        return location
    return replace(location, rewrites=draw(_some(INSIDE)))


def kept(draw: st.DrawFn, location: Location) -> Location:
    """A proxying or PHP location, now and then with a cache."""
    return replace(location, cache=draw(caches)) if draw(st.integers(0, 2)) == 0 else location
