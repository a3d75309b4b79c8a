"""What a fixed case says of one request, and the sites that most of them are made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from panel.rendering.spec import Listen, Location, PhpPool, ServerBlock, SiteSpec, Upstream, UpstreamServer
from tests.suites.conformance.world import World


@dataclass(frozen=True)
class Expected:
    """One request and its answer. `body` and `headers` count only where given; an empty header must be absent."""

    path: str
    status: int
    body: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    host: str | None = "a.test"
    sent: dict[str, str] = field(default_factory=dict)
    method: str = "GET"
    version: str = "1.1"
    sent_body: str = ""
    address: str = "127.0.0.1"
    port: int = 0  # 0: the case's own
    tls: bool = False
    otherwise: dict[str, int] = field(default_factory=dict)  # engine -> status, where a row of the table says so


def fixed(match: str, pattern: str, text: str) -> Location:
    return Location(match, pattern, "return", return_code=200, return_value=text)  # type: ignore[arg-type]


def one(world: World, name: str, *locations: Location, **more: object) -> SiteSpec:
    block = ServerBlock((Listen(world.port),), ("a.test",), root=world.www, locations=locations, **more)  # type: ignore[arg-type]
    upstream = Upstream("app", (UpstreamServer(world.backend),))
    return SiteSpec(name, (block,), upstreams=(upstream,), php_pools=(PhpPool("php", world.php),))
