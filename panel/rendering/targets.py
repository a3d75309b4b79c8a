"""Parse a site's proxy targets, and decide whether a target is a service of the web server's own host.

The functions resolve no names and access no database. Services on a socket below /run or on a loopback port trust every
local client: php-fpm runs scripts as its pool's user, and databases and panels may need no password. So a team may use
only services listed for it. `LocalServices.permits` decides this for upstreams, PHP pools and raw directives.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "localhost6"})
_SCHEME_PORTS = {
    "http": 80,
    "ws": 80,
    "https": 443,
    "wss": 443,
    "fcgi": 9000,
    "fastcgi": 9000,
    "ajp": 8009,
    "scgi": 4000,
}
_SCHEME = re.compile(r"(?:balancer|[a-z][a-z0-9+.-]*)://", re.I)
_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:/?#]*))(?::(?P<port>\d{1,5}))?")
_LISTED = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?:(?P<first>\d{1,5})(?:-(?P<last>\d{1,5}))?|(?P<all>\*))"
)
_SOCKET = re.compile(r"/[A-Za-z0-9_./@+-]+(?:/\*)?")


@dataclass(frozen=True)
class Target:
    """Proxy target: the `path` of a Unix socket, or `host` (lower case, numbers as an IP address) and `port`."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(text: str) -> Target:
    """Parse a proxy target: `host:port`, `[v6]:port`, `unix:/path`, or a URL of nginx or Apache. A host that is not an
    IP address is taken as a name.

    Examples of URLs with a socket are `http://unix:/path:/uri` and `unix:/path|fcgi://localhost`.
    """
    text = text.removeprefix("proxy:")  # from Apache's SetHandler
    scheme = _SCHEME.match(text)
    port = _SCHEME_PORTS.get(scheme[0][:-3].lower(), 80) if scheme else 80
    rest = text[scheme.end() :] if scheme else text
    if rest.lower().startswith("unix:"):
        path = re.split(r"[:|?#]", rest[5:], maxsplit=1)[0]
        return Target(path=_clean(path))
    rest = rest.rpartition("@")[2] if "@" in rest.split("/")[0] else rest
    found = _ADDRESS.match(rest)
    assert found is not None  # every part of the pattern is optional
    host = found["v6"] if found["v6"] is not None else found["host"]
    return Target(host_canonical(host), int(found["port"] or port))


def _clean(path: str) -> str:
    """Normalize the path of a socket, except for `..`, whose meaning depends on links.

    A path with `..` matches no service that is listed for a team.
    """
    if not path:
        return ""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return f"/{'/'.join(parts[1:] if parts[:2] == ['var', 'run'] else parts)}"  # /var/run is a link to /run


def host_canonical(host: str) -> str:
    """Return the canonical form of a host.

    Addresses get their usual notation, including those only inet_aton accepts (0x7f000001, 127.1, 017700000001). Names
    and addresses of the loopback interface become 127.0.0.1; other names become lower case.
    """
    name = host.strip().lower().rstrip(".").partition("%")[0]
    if name in _LOOPBACK_NAMES or name.endswith(".localhost"):
        return LOOPBACK
    address = _address(name)
    if address is None:
        return name
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_unspecified or address == ipaddress.ip_address("::1"):
        return LOOPBACK  # connecting to the unspecified address reaches this host
    return str(address)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        pass
    if not re.fullmatch(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}", text):
        return None
    try:
        return ipaddress.IPv4Address(socket.inet_aton(text))
    except OSError:
        return None


def is_name(text: str) -> bool:
    """Return whether `text` is a name that only the host's resolver can translate."""
    target = target_of(text)
    return bool(target.host) and _address(target.host) is None


def is_of_host(target: Target, own: Iterable[str] = ()) -> bool:
    """Return whether `target` is a service of the host itself. `own`: the host's names and addresses, in
    any notation.
    """
    if target.path:
        return True
    address = _address(target.host)
    if address is not None and (address.is_loopback or address in ipaddress.ip_network("0.0.0.0/8")):
        return True
    return target.host in {host_canonical(name) for name in own if name}


@dataclass(frozen=True)
class LocalServices:
    """Names and addresses of a host, and the services of the host that a team may use as proxy targets.

    `allowed` holds `unix:/path`, `unix:/folder/*`, `host:port`, `host:first-last` and `host:*`. Each socket in
    `reserved` belongs to one team, so `unix:/folder/*` does not permit it.
    """

    own: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    reserved: frozenset[str] = frozenset()
    is_any: bool = False  # for files shared by many sites, each of which was already checked for its own team

    def permits(self, text: str, resolved: Iterable[str] = ()) -> bool:
        """Return whether a site of the team may use `text` as a proxy target.

        `resolved`: the addresses of the target's name as resolved on the host, if known. A target with a variable is
        unknown before a request, so it is not permitted.
        """
        if "$" in text or "%{" in text:
            return False
        if self.is_any:
            return True
        target = target_of(text)
        targets = [target, *(Target(host_canonical(address), target.port) for address in resolved)]
        mine = [item for item in targets if is_of_host(item, self.own)]
        return all(self._lists(item) for item in mine)

    def _lists(self, target: Target) -> bool:
        if target.path in self.reserved:
            return f"unix:{target.path}" in self.allowed
        return any(_fits(listed, target) for listed in self.allowed)


def _fits(listed: str, target: Target) -> bool:
    if listed.startswith("unix:"):
        path = listed[5:]
        if ".." in target.path.split("/"):
            return False
        if path.endswith("/*"):
            return bool(target.path) and target.path.startswith(path[:-1])
        return target.path == path
    found = _LISTED.fullmatch(listed)
    if found is None or target.path or host_canonical(found["v6"] or found["host"]) != target.host:
        return False
    if found["all"]:
        return True
    return int(found["first"]) <= target.port <= int(found["last"] or found["first"])


def service_canonical(text: str) -> str:
    """Return the canonical form of an entry of `LocalServices.allowed`. Raise ValueError with a message for people."""
    text = text.strip()
    if text.startswith(("unix:", "/")):
        path = text.removeprefix("unix:")
        if ".." in path.split("/") or not _SOCKET.fullmatch(path):
            raise ValueError(
                "Enter the path of a socket, for example unix:/run/app.sock, or of a folder: unix:/run/shop/*."
            )
        return f"unix:{_clean(path.removesuffix('*'))}" + ("/*" if path.endswith("/*") else "")
    found = _LISTED.fullmatch(text)
    if found is None:
        raise ValueError(
            "Enter an address and a port, for example 127.0.0.1:3000, 127.0.0.1:3000-3099, or unix:/run/app.sock."
        )
    ports = [int(found[name]) for name in ("first", "last") if found[name]]
    if not all(0 < port < 65536 for port in ports) or ports != sorted(ports):
        raise ValueError("Enter ports from 1 to 65535, with the smaller port of a range first.")
    host = host_canonical(found["v6"] or found["host"])
    tail = "*" if found["all"] else "-".join(map(str, ports))
    return f"[{host}]:{tail}" if ":" in host else f"{host}:{tail}"
