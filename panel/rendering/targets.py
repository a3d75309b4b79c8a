"""Where a site's requests are passed on to, and whether that is a service of the web server's own host. Pure.

A socket below /run, or a port that listens on the loopback interface only, trusts whoever can reach it: php-fpm runs
scripts as its pool's user, databases and panels answer without a password. So a team may name only what is listed for
it. `LocalServices.permits` decides for every place that names a target: upstreams, PHP pools, raw directives.
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
    """`path` of a Unix socket; or `host` (in small letters, numbers as an IP address) and `port`."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(text: str) -> Target:
    """What an address names: `host:port`, `[v6]:port`, `unix:/path`, or a URL of nginx or Apache that holds one
    (`http://unix:/path:/uri`, `unix:/path|fcgi://localhost`). Everything that is no IP address is a name."""
    text = text.removeprefix("proxy:")  # Apache's SetHandler
    scheme = _SCHEME.match(text)
    port = _SCHEME_PORTS.get(scheme[0][:-3].lower(), 80) if scheme else 80
    rest = text[scheme.end() :] if scheme else text
    if rest.lower().startswith("unix:"):
        path = re.split(r"[:|?#]", rest[5:], maxsplit=1)[0]
        return Target(path=_clean(path))
    rest = rest.rpartition("@")[2] if "@" in rest.split("/")[0] else rest
    found = _ADDRESS.match(rest)
    assert found is not None  # every part of it is optional
    host = found["v6"] if found["v6"] is not None else found["host"]
    return Target(host_canonical(host), int(found["port"] or port))


def _clean(path: str) -> str:
    """One spelling of a path. `..` stays: after a link it leads elsewhere, so that no entry of the list fits it."""
    if not path:
        return ""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return f"/{'/'.join(parts[1:] if parts[:2] == ['var', 'run'] else parts)}"  # /var/run is a link to /run


def host_canonical(host: str) -> str:
    """An address in its usual spelling, whatever C's inet_aton takes (0x7f000001, 127.1, 017700000001); every name and
    address of the loopback interface's usual one as 127.0.0.1; other names in small letters."""
    name = host.strip().lower().rstrip(".").partition("%")[0]
    if name in _LOOPBACK_NAMES or name.endswith(".localhost"):
        return LOOPBACK
    address = _address(name)
    if address is None:
        return name
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_unspecified or address == ipaddress.ip_address("::1"):
        return LOOPBACK  # connecting to "any address" is connecting to this host
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
    """Whether only the host's resolver knows what `text` leads to."""
    target = target_of(text)
    return bool(target.host) and _address(target.host) is None


def is_of_host(target: Target, own: Iterable[str] = ()) -> bool:
    """Whether `target` is a service of the host itself. `own`: the host's names and addresses, in any spelling."""
    if target.path:
        return True
    address = _address(target.host)
    if address is not None and (address.is_loopback or address in ipaddress.ip_network("0.0.0.0/8")):
        return True
    return target.host in {host_canonical(name) for name in own if name}


@dataclass(frozen=True)
class LocalServices:
    """A host's own names and addresses, and the services on it that a team may use.

    `allowed` holds `unix:/path`, `unix:/folder/*`, `host:port`, `host:first-last` and `host:*`.
    """

    own: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    is_any: bool = False  # for files of many sites, each of which was held to its own team's list

    def permits(self, text: str, resolved: Iterable[str] = ()) -> bool:
        """Whether a site of the team may pass requests on to `text`. `resolved`: the addresses that the host has for
        its name, where somebody asked the host. A target with a variable in it is known to nobody before a request."""
        if "$" in text or "%{" in text:
            return False
        if self.is_any:
            return True
        target = target_of(text)
        targets = [target, *(Target(host_canonical(address), target.port) for address in resolved)]
        mine = [item for item in targets if is_of_host(item, self.own)]
        return all(any(_fits(listed, item) for listed in self.allowed) for item in mine)


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
    """An entry of the list in the one spelling that it is kept in. Raises ValueError with words for a person."""
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
        raise ValueError("Enter ports from 1 to 65535, and the smaller port of a range first.")
    host = host_canonical(found["v6"] or found["host"])
    tail = "*" if found["all"] else "-".join(map(str, ports))
    return f"[{host}]:{tail}" if ":" in host else f"{host}:{tail}"
