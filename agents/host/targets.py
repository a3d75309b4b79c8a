"""Check the targets of load tools: only addresses and ports of this host are allowed, on which managed sites listen.

The panel makes the same checks; the agent does not rely on them. A target must be in the panel's list, and its address
must be one of this host. Every part of the command line and of the URL files that could redirect the tool must name
this target.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Any
from urllib.parse import urlsplit

from agents.host import addresses
from agents.host.errors import Refusal
from agents.host.load_tools import BUNDLED, FILE, LOAD_TOOLS, PROGRAMS, SWITCH, VALUE

MAX_TIMEOUT_S = 2 * 3600.0
MAX_IDLE_S = 60.0
# Methods allowed before a URL of BUNDLED's list (panel/benchmarks/tools/arguments.py).
METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS")
# Allowed settings in siege's configuration: none names a proxy, a file or a destination.
_SIEGE_SETTINGS = {
    *("accept-encoding", "benchmark", "cache", "color", "connection", "cookies", "failures", "follow-location"),
    *("json_output", "limit", "logging", "parser", "protocol", "quiet", "show-logfile", "timeout", "unique"),
    *("user-agent", "verbose"),
}
_FILE_NAME = re.compile(r"[a-z][a-z0-9.-]{0,39}")
_FILES = re.compile(r"\{workdir\}/[a-z][a-z0-9.-]{0,39}")


class Request:
    """BenchRequest (agents/protocol.py) with checked types."""

    def __init__(self, args: dict[str, Any]) -> None:
        try:
            self.argv = [_text(part) for part in args["argv"]]
            self.target = _text(args["target"])
            self.allowed = [_text(part) for part in args["allowed"]]
            self.timeout_s = float(args["timeout_s"])
            self.sample_hz = float(args.get("sample_hz", 5.0))
            self.trees = {_text(name): [_text(part) for part in parts] for name, parts in args["trees"].items()}
            self.input_files = {_text(name): _text(content) for name, content in args.get("input_files", {}).items()}
            self.outputs = [_text(name) for name in args.get("outputs", [])]
            self.idle_s = float(args.get("idle_s", 0.0))
            self.testbed = _text(args.get("testbed", ""))
            program = args.get("program")
            self.program = None if program is None else {key: _text(program[key]) for key in ("source", "sha256")}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Refusal("invalid", "not a benchmark request: %s: %s" % (type(error).__name__, error)) from None
        for name, value, high in (("timeout_s", self.timeout_s, MAX_TIMEOUT_S), ("idle_s", self.idle_s, MAX_IDLE_S)):
            if not 0 <= value <= high:
                raise Refusal("invalid", "%s is %r; it must be from 0 to %d" % (name, value, high))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("%r is not text" % (value,))
    return value


def file_name(name: str) -> str:
    """Return `name` unchanged if it is the plain name of a file in the run's folder; raise Refusal otherwise."""
    if not _FILE_NAME.fullmatch(name) or ".." in name:
        raise Refusal("refused", "%r is not a plain file name" % name)
    return name


def check(request: Request, testbed: list[str] | None = None, *, isolated: bool = False) -> tuple[str, int]:
    """Return the address and port to which the load tool will connect; raise Refusal, with the reason, if this is not
    allowed.

    `testbed`: the listeners of the run's own test bed, which are then the only targets. `isolated`: the load generator
    can reach only the test bed.
    """
    argv = request.argv
    brought = testbed is not None or request.program is not None
    if not argv or argv[0] not in (PROGRAMS if brought else LOAD_TOOLS):
        raise Refusal("refused", "%r is not a load tool; it must be one of %s" % (argv[:1], ", ".join(LOAD_TOOLS)))
    if not request.allowed or request.target not in request.allowed:
        raise Refusal("refused", "%s is not a listener of a site that Paddock manages on this host" % request.target)
    address, port = split_target(request.target)
    if testbed is None:
        require_own(address)
    elif request.target not in testbed:
        raise Refusal("refused", "%s is not a listener of the test bed %s" % (request.target, request.testbed))
    _check_arguments(request, isolated=isolated)
    _check_urls(request, address, port)
    return address, port


def split_target(target: str) -> tuple[str, int]:
    """Split `127.0.0.1:80` or `[::1]:80` into address and port. Raise Refusal for a name, because it could resolve to
    another address when the tool uses it.
    """
    host, _, port = target.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    reason = addresses.why_refused(host)
    if reason:
        raise Refusal("refused", "%s is %s" % (host, reason))
    try:
        address, number = ipaddress.ip_address(host), int(port)
    except ValueError:
        raise Refusal("refused", "%r is not an address and a port, such as 127.0.0.1:80" % target) from None
    if not 0 < number < 65536:
        raise Refusal("refused", "%r has a port that is not from 1 to 65535" % target)
    return str(address), number


def require_own(address: str) -> None:
    """Raise Refusal unless the address belongs to this host. To find out, a UDP socket is bound to the address for a
    moment, at a free port.
    """
    if ipaddress.ip_address(address).is_unspecified or ipaddress.ip_address(address).is_multicast:
        raise Refusal("refused", "%s is no address a site can be reached at" % address)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            raise Refusal("refused", "%s is not an address of this host" % address) from None


def _check_arguments(request: Request, *, isolated: bool) -> None:
    argv, target, tool = request.argv, request.target, request.argv[0]
    for part in argv[1:]:
        if "\0" in part or "\n" in part or "\r" in part:
            raise Refusal("refused", "an argument holds a line break or NUL")
    if tool in ("h2load", BUNDLED):
        _check_connect_to(argv, target)
    elif tool == "siege":
        _check_siege(argv, request.input_files.get("siegerc", ""), isolated=isolated)
    elif tool == "wrk" and not (argv.count("-s") == 1 and argv[argv.index("-s") :][1:2] == ["{workdir}/wrk.lua"]):
        raise Refusal("refused", "wrk runs with the agent's own script only: -s {workdir}/wrk.lua")
    elif tool == "hey" and "-disable-redirects" not in argv:
        raise Refusal("refused", "hey must be told -disable-redirects, because a redirect may lead to another host")
    _check_options(argv)


def _check_connect_to(argv: list[str], target: str) -> None:
    tool = argv[0]
    expected = ["--connect-to", target] if tool == BUNDLED else ["--connect-to=" + target]
    places = [argv[at : at + len(expected)] for at, part in enumerate(argv) if part.startswith("--connect-to")]
    if places != [expected]:
        raise Refusal("refused", "%s must be told %s, once" % (tool, " ".join(expected)))


def _check_options(argv: list[str]) -> None:
    """Raise Refusal for an option that the load tool must not get, and for a file outside the run's folder.

    Only the last argument may be without an option, if it is a URL. Tools read options in several forms (`-Xproxy`,
    `--x=proxy`), so only the forms that the panel writes are accepted.
    """
    tool, at = argv[0], 1
    options = PROGRAMS[tool].options
    while at < len(argv):
        name, equals, value = argv[at].partition("=") if argv[at].startswith("--") else (argv[at], "", "")
        at += 1
        if "://" in name and not name.startswith("-") and at == len(argv):
            return
        kind = options.get(name)
        if kind is None or (kind == SWITCH and equals):
            raise Refusal("refused", "%s %s is not allowed here" % (tool, name))
        if kind in (VALUE, FILE) and not equals:
            value = argv[at] if at < len(argv) else ""
            at += 1
        if ("{workdir}" in value or kind == FILE) and not _FILES.fullmatch(value):
            raise Refusal("refused", "%r leaves the folder of the run" % value)


def _check_siege(argv: list[str], settings: str, *, isolated: bool) -> None:
    if argv[1:3] != ["-R", "{workdir}/siegerc"]:
        raise Refusal("refused", "siege runs with the run's own configuration only: -R {workdir}/siegerc")
    for line in settings.splitlines():
        key, _, value = (part.strip() for part in line.partition("="))
        # Pages and redirects may point anywhere; in a test bed's own network nothing else is reachable.
        elsewhere = key in ("parser", "follow-location") and value != "false" and not isolated
        if key not in _SIEGE_SETTINGS or elsewhere:
            raise Refusal("refused", "%r may not be set in siege's configuration" % key)


def _check_urls(request: Request, address: str, port: int) -> None:
    """Raise Refusal for a URL that is not plain HTTP or HTTPS, and if there is no URL.

    For a tool that connects to the address in its URLs, also raise Refusal for a URL whose address is not the target.
    """
    tool = PROGRAMS[request.argv[0]]
    urls = [part for part in request.argv[1:] if "://" in part]
    if tool.reads_urls:
        urls += [line for line in request.input_files.get("urls", "").split("\n") if line]
    if not urls:
        raise Refusal("refused", "there is no URL to ask for")
    for url in urls:
        host, url_port = _place(_without_method(url) if request.argv[0] == BUNDLED else url)
        if not tool.connects_to_url:
            continue
        if url_port != port:
            raise Refusal("refused", "%r is not at %s" % (url, request.target))
        _require_same(host, address)


def _without_method(line: str) -> str:
    method, blank, url = line.partition(" ")
    if blank and method not in METHODS:
        raise Refusal("refused", "%r is no method that a load may have: %s" % (method, ", ".join(METHODS)))
    return url if blank else line


def _place(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refusal("refused", "%r is not a URL" % url) from None
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not parts.hostname:
        raise Refusal("refused", "%r is not a plain http or https URL" % url)
    return parts.hostname, port or {"http": 80, "https": 443}[parts.scheme]


def _require_same(host: str, address: str) -> None:
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        found = set()
    if found != {address}:
        where = ", ".join(sorted(found)) or "nothing"
        raise Refusal(
            "refused",
            (
                "the name %s resolves to %s on this host, not only to %s. This load tool takes the TLS name from the "
                "URL: add '%s %s' to /etc/hosts on the host, or choose h2load or wrk"
            )
            % (host, where, address, address, host),
        )
