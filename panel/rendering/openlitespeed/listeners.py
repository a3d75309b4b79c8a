"""Render listeners with their maps, and the list of virtual hosts, which depend on all sites of a web server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from panel.rendering import checks, names
from panel.rendering.errors import NotExpressible
from panel.rendering.openlitespeed import www
from panel.rendering.openlitespeed.hosts import folder, host_name
from panel.rendering.openlitespeed.quoting import value
from panel.rendering.openlitespeed.vhost import tls_keys
from panel.rendering.spec import Listen, OwnListener, ServerBlock, SiteSpec, WebServerSpec
from panel.rendering.tree import Directive, Node, Raw, block, directive

_KINDS = {"exact": 0, "dot": 1, "leading": 1, "trailing": 2}


@dataclass
class Listener:
    """Listener on one socket, with its server blocks in order of the sites."""

    address: str
    port: int
    secure: bool
    both_families: bool = False  # `[ANY]` also accepts IPv4, so it must be the only listener of its port
    hosts: list[tuple[str, ServerBlock, Listen, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        where = self.address.replace(".", "_").replace(":", "_") or "any"
        return f"paddock_{where}_{self.port}"

    def add(self, host: tuple[str, ServerBlock, Listen, str]) -> None:
        """Add the virtual host of a server block to the listener.

        A block that listens on both address families is added once, as the default if one of its listens is the
        default.
        """
        known = next((n for n, other in enumerate(self.hosts) if other[0] == host[0]), None)
        if known is None:
            self.hosts.append(host)
        elif host[2].default_server:
            self.hosts[known] = host

    @property
    def default(self) -> tuple[str, ServerBlock, Listen, str]:
        return next((host for host in self.hosts if host[2].default_server), self.hosts[0])


def web_server_nodes(specs: Sequence[SiteSpec], web_server: WebServerSpec) -> list[Node]:
    hosts = [_virtual_host(host_name(spec, n), web_server) for spec in specs for n in range(len(spec.blocks))]
    own = {(item.address, item.port): item for item in web_server.own_listeners}
    return [*hosts, *(_joined(listener, own) or _listener(listener) for listener in _sockets(specs))]


def own_clash(own: Sequence[OwnListener], address: str, port: int, secure: bool) -> str:
    """Return an error message if a site cannot use the listener that the server's own files have on a socket; "" if it
    can, or without such a listener.

    `secure`: the site uses TLS on this socket.
    """
    wanted = "" if address == "::" else address
    same = [
        item for item in own if item.port == port and (item.address == wanted or (item.address, wanted) == ("::", ""))
    ]
    return next(filter(None, (_clash(item, secure, address == "::") for item in same)), "")


def _clash(own: OwnListener, secure: bool, both_families: bool) -> str:
    here = f"the web server's own listener {own.name} already uses port {own.port}"
    if own.secure != secure:
        speaks = "with" if own.secure else "without"
        return f"{here} {speaks} TLS; choose another port, or change the listener on the host"
    if both_families and own.address != "::":
        return (
            f"{here} for IPv4 only; use the address [ANY]:{own.port} in the listener and import the configuration again"
        )
    return ""


def _joined(listener: Listener, own: dict[tuple[str, int], OwnListener]) -> Node | None:
    """Return the listener that the server's own files have on the socket of `listener`, repeated with the maps of the
    sites; None if these files have no listener there.

    Raises NotExpressible if the sites cannot use that listener, for example because only one of both uses TLS.
    """
    both = own.get(("::", listener.port))
    found = (both if not listener.address else None) or own.get((listener.address, listener.port))
    if found is None:
        return None
    words = _clash(found, listener.secure, listener.both_families)
    if words:
        raise checks.refuse(f"{listener.hosts[0][3]}/listens", words)
    text = Raw(found.text, comment="This listener comes from the web server's own files")
    return block("listener", found.name, body=[text, *_maps(listener, is_own=True)])


def _sockets(specs: Sequence[SiteSpec]) -> list[Listener]:
    found: dict[tuple[str, int], Listener] = {}
    for spec in specs:
        for number, source in enumerate(spec.blocks):
            at = f"/blocks/{number}"
            for listen in source.listens:
                address = checks.listen_address(listen.address, f"{at}/listens")
                key = ("" if address == "::" else address, checks.port(listen.port, f"{at}/listens"))
                listener = found.setdefault(key, Listener(*key, secure=listen.tls))
                if listener.secure != listen.tls:
                    raise checks.refuse(
                        f"{at}/listens",
                        f"server blocks use port {listen.port} both with and without TLS; turn TLS on for all of "
                        "them or for none",
                    )
                listener.both_families |= address == "::"
                listener.add((host_name(spec, number), source, listen, at))
    return [found[key] for key in sorted(found, key=lambda key: (key[1], key[0]))]


def _virtual_host(host: str, web_server: WebServerSpec) -> Node:
    where = folder(web_server, host)
    body = [
        directive("vhRoot", f"{where}/"),
        directive("configFile", f"{where}/vhconf.conf"),
        directive("allowSymbolLink", 1),
        directive("enableScript", 1),
        directive("restrained", 0),
    ]
    return block("virtualHost", host, body=body)


def _listener(listener: Listener) -> Node:
    everywhere = "[ANY]" if listener.both_families else "*"
    host = f"[{listener.address}]" if ":" in listener.address else listener.address or everywhere
    body: list[Directive] = [directive("address", f"{host}:{listener.port}"), directive("secure", int(listener.secure))]
    lines: list[Node] = [*body]
    if listener.secure:
        _, source, _, at = listener.default
        lines += tls_keys(source, at)
    return block("listener", listener.name, body=[*lines, *_maps(listener)])


def _maps(listener: Listener, *, is_own: bool = False) -> list[Node]:
    """Return the `map` directives of a listener: exact names first, then wildcards with the longest first, as in nginx.

    A host's final dot is significant (RFC 3986 section 3.2.2 allows one), so each name is listed with and without it. A
    leading `www.` is ignored (VHostMap::mapDomainList), so if NAME and www.NAME belong to two blocks, one of them is
    left out. `is_own`: the listener is also in the web server's own files, which can define its default.
    """
    ranked: list[tuple[int, int, str, str]] = []
    blocks = {host: source for host, source, _, _ in listener.hosts}
    left_out = www.left_out(blocks)
    for host, source, _, at in listener.hosts:
        for number, name in enumerate(source.names):
            kind = names.kind(names.check(name, f"{at}/names/{number}"))
            if names.is_ipv6(name):
                raise NotExpressible(
                    f"{at}/names/{number}",
                    f"Paddock does not support IPv6 addresses as server names on OpenLiteSpeed; remove {name}",
                )
            if kind == "regex" or (host, name) in left_out:
                continue
            domains = value(", ".join(_hosts(name, kind)), f"{at}/names/{number}")
            ranked.append((_KINDS[kind], -len(name) if kind != "exact" else 0, host, domains))
    lines: list[Node] = [
        directive("map", host, domains) for _, _, host, domains in sorted(ranked, key=lambda item: item[:2])
    ]
    if is_own and not listener.default[2].default_server:
        return lines  # the server's own files define the default
    return [*lines, directive("map", listener.default[0], "*")]


def _hosts(name: str, kind: str) -> list[str]:
    every = [name[1:], f"*{name}"] if kind == "dot" else [name]
    return every if kind == "trailing" else [*every, *(f"{item}." for item in every)]
