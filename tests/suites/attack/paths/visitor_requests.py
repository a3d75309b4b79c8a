"""The requests that a visitor sends to a hostile site, over raw sockets."""

from __future__ import annotations

from random import Random

from tests.suites.attack.paths.definitions import Hostile
from tests.suites.attack.paths.folders import SECRET
from tests.suites.conformance.wire import Request

# What a client may put where a site takes it into a path.
CLIMBING = (
    f"../beta/{SECRET}", f"../beta/{SECRET}", "..", "../", f"/../beta/{SECRET}", f"bet/{SECRET}", f"/beta/{SECRET}",
    "../../../../../../../../etc/passwd", f"%2e%2e/beta/{SECRET}", f"..%2fbeta%2f{SECRET}", f"..\\beta\\{SECRET}",
    f"x/../../beta/{SECRET}", f"2/{SECRET}", f"./../beta/{SECRET}", f"files/../../beta/{SECRET}", "/etc/passwd",
    f"/files/../../{SECRET}", f"//../beta/{SECRET}", f"../../beta/{SECRET}",
)  # fmt: skip
# Known ways to climb.
PATHS = (
    "/", f"/../beta/{SECRET}", f"/%2e%2e/beta/{SECRET}", f"/..%2fbeta/{SECRET}", f"/files/../../beta/{SECRET}",
    "/..%0a", "/..", f"//../beta/{SECRET}", f"/x../{SECRET}", "/x..", f"/f../beta/{SECRET}", f"/files..%2f{SECRET}",
    f"/..\\beta\\{SECRET}", f"/xbet/{SECRET}", f"/bet/{SECRET}", f"/beta/{SECRET}", "/etc/passwd", f"/{SECRET}",
    "/x/../x../", f"/f/..%0a/beta/{SECRET}", f"/....//beta/{SECRET}", f"/;/../beta/{SECRET}", f"/..;/beta/{SECRET}",
    f"/%c0%ae%c0%ae/beta/{SECRET}", "/f/%2e%2e%0a", "/a..%0a/", f"/..%00/beta/{SECRET}", "/f", "/x", "/files",
)  # fmt: skip
# What the application says in X-Accel-Redirect, X-Sendfile and X-LiteSpeed-Location.
WANTED = (
    f"/../beta/{SECRET}", f"/x../{SECRET}", f"/x/../../beta/{SECRET}", f"/%2e%2e/beta/{SECRET}", "/etc/passwd",
    f"/f../beta/{SECRET}", "/..%0a", "/a.txt", f"/..a/beta/{SECRET}", f"/files/..%2f..%2fbeta/{SECRET}", "/f",
)  # fmt: skip
# The user names ../beta/secret.txt, .. and ..\n/x
USERS = ("Basic Li4vYmV0YS9zZWNyZXQudHh0Onh4", "Basic Li46eA==", "Basic Li4KL3g6eA==")


def requests(site: Hostile, chance: Random, count: int) -> list[Request]:
    """`count` requests: aimed at what the site does, or known ways to climb."""
    return [_one(site, chance) for _ in range(count)]


def _one(site: Hostile, chance: Random) -> Request:
    target = chance.choice(site.aims) if site.aims and chance.random() < 0.8 else chance.choice(PATHS)
    target = target if target.startswith("/") else f"/{target}"
    if chance.random() < 0.07:
        target = target.replace("..", chance.choice(("%2e%2e", ".%2e", "%252e%252e")))
    if chance.random() < 0.05:
        target = target.replace("/", chance.choice(("//", "%2f", "\\", "/./")))
    if "?" not in target and chance.random() < 0.6:
        value = chance.choice(CLIMBING)
        target += f"?f={value}" if chance.random() < 0.7 else f"?{value}"
    method = "GET" if chance.random() < 0.96 else chance.choice(("POST", "..", "HEAD"))
    names = (f"{site.host}.", f"..{site.host}", "..", f"{site.host}:80")
    host = site.host if chance.random() < 0.97 else chance.choice(names)
    return Request(target, method, host, headers=_headers(chance))


def _headers(chance: Random) -> tuple[tuple[str, str], ...]:
    found = [("X", chance.choice(CLIMBING)), ("Cookie", f"x={chance.choice(CLIMBING)}")]
    found.append(("X-Want", chance.choice(WANTED)))
    if chance.random() < 0.3:
        found.append(("Authorization", chance.choice(USERS)))
    return tuple(found)
