"""Find names and addresses of a site that would take requests from another site. The functions access no database.

Names are compared as sets of hosts, not as strings: `*.a.example` overlaps `www.a.example`, and `www.*` overlaps both.
Two sites with disjoint names never compete for a request by name, in whatever order a server tries names (nginx and
gallop: names.py; Apache: the first matching virtual host in file order, wildcards included; OpenLiteSpeed: exact names,
then wildcards in order of addition). Regular expressions are not run: the literal text before the final `$` limits the
possible matches, and an expression without such an end can match every host. On every server, a socket on one address
takes precedence over the socket on all addresses before names are compared. So an address is a claim of its own, and so
is the default server of a socket.
"""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Literal, TypeVar

from panel.rendering import snippets
from panel.rendering.names import kind
from panel.rendering.spec import Listen, ServerBlock, SiteSpec
from panel.rendering.targets import target_of

ClaimKind = Literal["name", "address", "default", "service"]
BOTH_FAMILIES = frozenset({"apache", "openlitespeed"})  # a socket on all addresses serves IPv4 and IPv6
Owner = TypeVar("Owner")


@dataclass(frozen=True)
class Span:
    """Set of host names: the name `text`, all names that end with `text`, all names that begin with `text`, or all
    names.
    """

    form: Literal["exact", "suffix", "prefix", "everything"]
    text: str = ""

    @property
    def is_local(self) -> bool:
        """True if the name has a different meaning on each host, or is too broad for one team.

        Examples are `localhost`, an IP address, `*.example`, `www.*`, or a regular expression that can match anything.
        """
        if self.form in ("prefix", "everything"):
            return True
        name = self.text.strip(".")
        return "." not in name or name.endswith((".localhost", ".local")) or _is_ip(name)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def spans(name: str) -> tuple[Span, ...]:
    """Return spans that together contain every host that a server name can match; they can contain further hosts."""
    form, name = kind(name), name if name.startswith("~") else name.lower().removesuffix(".")
    if form == "regex":
        return _regex_spans(name[1:])
    if form == "leading":
        return (Span("suffix", name[1:]),)
    if form == "dot":
        return Span("exact", name[1:]), Span("suffix", name)
    if form == "trailing":
        return (Span("prefix", name[:-1]),)
    return (Span("exact", name),)


# Tokens allowed before the literal end of an expression. Excluded is everything that changes the meaning of later text:
# flags (?x), verbs (*ACCEPT), quoting \Q, POSIX classes, and look-around.
_TOKEN = re.compile(
    r"(?P<literal>[A-Za-z0-9_-]|\\[.-])|(?P<bar>\|)|(?P<end>\$)|(?P<open>\((?:\?:|\?P?<[A-Za-z]\w*>|(?![?*])))|(?P<close>\))"
    r"|(?P<other>\^|\.|\\[dDwW]|\[\^?(?:[A-Za-z0-9_.-]|\\[dw.-])+\]|[*+?][?+]?|\{\d+(?:,\d*)?\}[?+]?)"
)


@lru_cache(maxsize=1024)
def _regex_spans(pattern: str) -> tuple[Span, ...]:
    """Return one span for each top-level alternative of a regular expression: the literal text at the end of the
    alternative.

    PCRE reads the allowed tokens in the same way (pcre2pattern(3)); a pattern with any other token counts as matching
    everything.
    """
    found: list[Span] = []
    tail, ended, depth, position = "", False, 0, 0
    while position <= len(pattern):
        token = _TOKEN.match(pattern, position)
        last = position == len(pattern)
        if token is None and not last:
            return (Span("everything"),)
        form = token.lastgroup if token else "bar"
        depth += (form == "open") - (form == "close")
        if depth < 0 or (last and depth):
            return (Span("everything"),)
        if form == "bar" and depth == 0:
            if not (ended and tail):
                return (Span("everything"),)
            found.append(Span("suffix", tail.lower()))
            tail, ended = "", False
        elif form == "end" and depth == 0:
            ended = True
        elif token is not None:
            tail, ended = (tail + token[0][-1] if form == "literal" and depth == 0 and not ended else ""), False
        position = token.end() if token else position + 1
    return tuple(found)


def overlap(one: str, other: str) -> bool:
    """Return whether one host can match both server names."""
    return any(_meet(a, b) for a in spans(one) for b in spans(other))


def is_local(name: str) -> bool:
    """Return whether the name has a different meaning on each host or is too broad for one team (see Span.is_local)."""
    return any(span.is_local for span in spans(name))


def is_wide(name: str) -> bool:
    """Return whether the name is broad enough to compete with a default server: `*.example`, `www.*`, `~.`."""
    return any(
        span.form in ("prefix", "everything") or (span.form == "suffix" and "." not in span.text.strip("."))
        for span in spans(name)
    )


_ORDER = ("exact", "suffix", "prefix", "everything")


def _meet(one: Span, other: Span) -> bool:
    first, second = sorted((one, other), key=lambda span: _ORDER.index(span.form))
    if second.form == "everything":
        return True
    if first.form == "exact":
        return _holds(second, first.text)
    if first.form != second.form:
        return True  # *.a.example and www.* share www.a.example
    return _holds(first, second.text) or _holds(second, first.text)


def _holds(span: Span, text: str) -> bool:
    if span.form == "suffix":
        return text.endswith(span.text)
    return text.startswith(span.text) if span.form == "prefix" else text == span.text


class NameIndex(Generic[Owner]):
    """Index of rows (server name, owner) that finds overlapping names without a full scan."""

    def __init__(self, rows: Iterable[tuple[str, Owner]]) -> None:
        self._by_form: dict[str, dict[str, list[tuple[str, Owner]]]] = {form: {} for form in _ORDER}
        for row in rows:
            for span in spans(row[0]):
                self._by_form[span.form].setdefault(span.text, []).append(row)
        exact, suffix, prefix = (self._by_form[form] for form in _ORDER[:3])
        self._ends = [sorted((text[::-1], found) for text, found in part.items()) for part in (exact, suffix)]
        self._beginnings = [sorted(part.items()) for part in (exact, prefix)]

    def overlapping(self, name: str) -> Iterator[tuple[str, Owner]]:
        """Yield the rows (server name, owner) whose names can match a host that `name` can match too. A row can appear
        twice.
        """
        for span in spans(name):
            for rows in self._meeting(span.form, span.text):
                yield from rows

    def _meeting(self, form: str, text: str) -> Iterator[list[tuple[str, Owner]]]:
        exact, suffix, prefix, everything = (self._by_form[name] for name in _ORDER)
        yield from everything.values()
        if form == "everything":
            for part in (exact, suffix, prefix):
                yield from part.values()
            return
        if form == "exact" and text in exact:
            yield exact[text]
        if suffix and form != "prefix":
            yield from (suffix[end] for n in range(len(text)) if (end := text[n:]) in suffix)
        if prefix and form != "suffix":
            yield from (prefix[start] for n in range(len(text)) if (start := text[: n + 1]) in prefix)
        if form == "suffix":
            yield from prefix.values()
            yield from (rows for part in self._ends for rows in _beginning(part, text[::-1]))
        if form == "prefix":
            yield from suffix.values()
            yield from (rows for part in self._beginnings for rows in _beginning(part, text))


def _beginning(rows: Sequence[tuple[str, list[tuple[str, Owner]]]], text: str) -> Iterator[list[tuple[str, Owner]]]:
    start = bisect_left(rows, text, key=lambda row: row[0])
    for number in range(start, len(rows)):
        key, found = rows[number]
        if not key.startswith(text):
            return
        yield found


# --- addresses ---


def address_canonical(address: str) -> str:
    """Return the canonical address: "" for all IPv4 addresses, "::" for all IPv6 addresses, IPv4-mapped
    ones as IPv4.
    """
    if not address:
        return ""
    value = ipaddress.ip_address(address)
    mapped = getattr(value, "ipv4_mapped", None)
    text = str(mapped or value)
    return "" if text == "0.0.0.0" else text  # noqa: S104 - compared, not bound to


def every_address(engine: str, address: str) -> frozenset[str]:
    """Return the wildcard addresses, such as "::", on which a socket would accept a connection to `address`."""
    if engine in BOTH_FAMILIES:
        return frozenset({"", "::", "0.0.0.0"})  # noqa: S104
    return frozenset({"::"}) if ":" in address else frozenset({"", "0.0.0.0"})  # noqa: S104


def socket_text(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address or '*'}:{port}"


@dataclass(frozen=True)
class Claim:
    """Resource that a site uses and that can belong to another team: a name, a socket, or a proxy target (service).

    `where` is the field of the site's definition with the resource, for example blocks/0/names.
    """

    kind: ClaimKind
    value: str  # www.a.example, 127.0.0.1:80
    where: str = ""
    address: str = ""
    port: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.value


def block_claims(where: str, names: Iterable[str], listens: Iterable[Listen]) -> Iterator[Claim]:
    """Yield the claims of a server block: its names, its addresses, and sockets for which it is the default server."""
    for name in names:
        yield Claim("name", name if name.startswith("~") else name.lower().removesuffix("."), f"{where}/names")
    for listen in listens:
        address = address_canonical(listen.address)
        socket = socket_text(address, listen.port)
        if address not in ("", "::"):
            yield Claim("address", socket, f"{where}/listens", address, listen.port)
        if listen.default_server:
            yield Claim("default", socket, f"{where}/listens", address, listen.port)


def raw_claims(text: str, engine: str, where: str) -> Iterator[Claim]:
    """Yield a claim for each proxy target in raw directives."""
    for named in snippets.named(text, engine):
        if named.what == "target":
            yield Claim("service", str(target_of(named.value)), where)


def target_claims(upstreams: Iterable[Iterable[str]], pools: Iterable[str]) -> Iterator[Claim]:
    """Yield a claim for each upstream server and PHP pool."""
    for number, servers in enumerate(upstreams):
        for address in servers:
            yield Claim("service", str(target_of(address)), f"upstreams/{number}/servers")
    for number, address in enumerate(pools):
        yield Claim("service", str(target_of(address)), f"php_pools/{number}/address")


def takes_socket(claim: Claim, engine: str, others: Iterable[tuple[str, int]]) -> bool:
    """Return whether the claim, an address or a default server, takes requests from other sites of the same web server.

    `others` are the sockets (address, port) on which the other sites listen. An address takes requests that another
    site would get on all addresses, unless some other site already listens on this address.
    """
    same = {address_canonical(address) for address, port in others if port == claim.port}
    everything = {address_canonical(item) for item in every_address(engine, claim.address)}
    if claim.kind == "address":
        return claim.address not in same and not same.isdisjoint(everything)
    if claim.address in everything:  # the default server on all addresses
        return not same.isdisjoint(everything)
    return claim.address in same


def takes(own: Sequence[ServerBlock], others: Sequence[ServerBlock], engine: str = "nginx") -> list[Claim]:
    """Return the claims of the server blocks `own`, names and sockets, that would receive requests of the server blocks
    `others`. These belong to other teams on the same web server.

    A name that takes requests only from a default server is not returned, because a default server is for names that no
    site has. But a name with a wildcard for many names (`is_wide`) is returned.
    """
    index = NameIndex((name, None) for block in others for name in block.names)
    listens = [listen for block in others for listen in block.listens]
    sockets = [(listen.address, listen.port) for listen in listens]
    has_default = any(listen.default_server for listen in listens)

    def is_taken(claim: Claim) -> bool:
        if claim.kind == "name":
            return any(True for _row in index.overlapping(claim.value)) or (has_default and is_wide(claim.value))
        return takes_socket(claim, engine, sockets)

    claims = (claim for n, block in enumerate(own) for claim in block_claims(f"blocks/{n}", block.names, block.listens))
    return [claim for claim in claims if is_taken(claim)]


def spec_claims(spec: SiteSpec, engine: str) -> list[Claim]:
    """Return the claims of a frozen site on a web server of the kind `engine`."""
    found: list[Claim] = []
    for index, block in enumerate(spec.blocks):
        found += block_claims(f"blocks/{index}", block.names, block.listens)
        for text in (block.snippet, *(location.snippet for location in block.locations)):
            found += raw_claims(text, engine, "blocks/snippets")
    servers = ([server.address for server in upstream.servers] for upstream in spec.upstreams)
    return [*found, *target_claims(servers, (pool.address for pool in spec.php_pools))]
