"""Check the data of an ApplyRequest (agents/protocol.py); raise a Refusal that names the first invalid value."""

from __future__ import annotations

import pwd
from typing import Any

from agents.host import paths, state, workers
from agents.host.errors import Refusal

ACTIONS = ("put", "link", "remove", "directory")
ENGINES = ("nginx", "apache", "openlitespeed", "native")
CONTROLS = ("direct", "systemd")
CHECK_KINDS = ("health", "location", "address", "takeover", "other")
STREAMS = ("tcp", "tcp_denied", "udp")
MAX_FILES = 100_000


class Wanted:
    """Wanted state of one file. `named` is its path as requested, `path` the same path with the links of its folder
    resolved.
    """

    def __init__(self, data: Any, roots: list[str]) -> None:
        _object(data, "file")
        self.named: str = paths.check_shape(data.get("path"))
        self.path = paths.resolve(self.named, roots)
        self.action = _one_of(data, "action", ACTIONS)
        self.content = _text(data, "content", "").encode("utf-8", "surrogateescape")
        self.mode = _mode(data.get("mode", 0o644), self.named)
        self.target = _text(data, "target", "")
        expect = data.get("expect")
        if expect is not None and not isinstance(expect, str):
            raise Refusal("invalid", "%s: expect is a SHA-256, '' or null" % self.named)
        self.expect: str | None = expect
        self.keeps_owner = data.get("keep_owner") is True
        self.if_absent = data.get("if_absent") is True
        if self.action == "link":
            self._check_target(roots)

    def _check_target(self, roots: list[str]) -> None:
        if not self.target:
            raise Refusal("refused", "%s: a link needs a target" % self.named)
        folder = self.path.rpartition("/")[0]
        target = self.target if self.target.startswith("/") else "%s/%s" % (folder, self.target)
        paths.resolve(_normal(target), roots)

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Request:
    """An ApplyRequest (agents/protocol.py) whose data was checked; lists keep their order."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.ident = state.check_id(data.get("transaction"))
        self.roots = paths.resolve_roots(data.get("roots"))
        files = data.get("files")
        if not isinstance(files, list) or len(files) > MAX_FILES:
            raise Refusal("invalid", "files is a list of at most %d changes" % MAX_FILES)
        self.files = [Wanted(item, self.roots) for item in files]
        seen: set[str] = set()
        for wanted in self.files:
            if wanted.path in seen:
                raise Refusal("invalid", "%s is named twice in one transaction" % wanted.named)
            seen.add(wanted.path)
        self.engines = [check_engine(item) for item in _list(data, "engines")]
        workers.refuse_root(self.files, self.engines)
        self.probes = [check_probe(item) for item in _list(data, "probes")]
        self.guards = [check_probe(item) for item in _list(data, "guards")]
        self.anyway = data.get("anyway") is True
        self.dry_run = data.get("dry_run") is True
        self.ports = [check_port(item) for item in data.get("ports") or ()]
        self.administrators = administrators(self.engines)


def check_port(data: Any) -> tuple[str, int]:
    """Check a list of an address and a port number, and return it as a tuple. The address "" means all IPv4 addresses.
    Raises Refusal.
    """
    if not isinstance(data, (list, tuple)) or len(data) != 2:
        raise Refusal("invalid", "a port is a list of an address and a number")
    address, port = data
    if not isinstance(address, str) or not isinstance(port, int) or not 0 < port < 65536:
        raise Refusal("invalid", "a port is a list of an address and a number from 1 to 65535")
    return address, port


def check_engine(data: Any) -> dict[str, str]:
    """Check an EngineControl and return it as strings: absolute paths, a known engine and a known way of control.
    Raises Refusal.
    """
    _object(data, "engine")
    control = {
        "engine": _one_of(data, "engine", ENGINES),
        "control": _one_of(data, "control", CONTROLS) if data.get("control") else "direct",
        "unit": _text(data, "unit", ""),
    }
    for name in ("binary", "prefix", "main_config", "config_root", "pid_file"):
        control[name] = paths.check_shape(data.get(name))
    unit = control["unit"]
    if control["control"] == "systemd" and not (
        unit and unit[0].isalnum() and all(character.isalnum() or character in "@._:-" for character in unit)
    ):
        raise Refusal("invalid", "%r is not the name of a systemd unit" % unit)
    return control


def administrators(engines: list[dict[str, str]]) -> frozenset[int]:
    """Return the ids of the users besides root that are meant to write a server's configuration.

    The only such user is OpenLiteSpeed's `lsadm`, the account of its WebAdmin, which can already control the server's
    root process. The set is empty if `engines` has no OpenLiteSpeed.
    """
    if not any(engine["engine"] == "openlitespeed" for engine in engines):
        return frozenset()
    try:
        return frozenset([pwd.getpwnam("lsadm").pw_uid])
    except KeyError:
        return frozenset()


def check_probe(data: Any) -> dict[str, Any]:
    """Check a Probe (agents/protocol.py) and return it as a dictionary. Afterwards, no value can break the request line
    or a header. Raises Refusal.
    """
    _object(data, "probe")
    probe: dict[str, Any] = {name: _text(data, name, "") for name in ("address", "host")}
    probe["path"] = _text(data, "path", "/")
    if any(ord(character) <= 32 or ord(character) == 127 for text in probe.values() for character in text):
        raise Refusal("invalid", "a probe's address, host and path hold no blanks and no control characters")
    if not probe["path"].startswith("/"):
        raise Refusal("invalid", "a probe's path begins with /")
    timeout = data.get("timeout_s", 5.0)
    if not isinstance(timeout, (int, float)) or not 0 < timeout <= 60:
        raise Refusal("invalid", "a probe's timeout is a number of seconds from 0 to 60")
    status = data.get("status")
    probe.update({name: data.get(name) is True for name in ("tls", "http2", "exact", "fresh", "new", "required")})
    probe.update({name: _text(data, name, "") for name in ("site", "text", "certificate")})
    probe["kind"] = _one_of(data, "kind", CHECK_KINDS) if data.get("kind") else "health"
    probe["stream"] = _one_of(data, "stream", STREAMS) if data.get("stream") else ""
    probe["status"] = None if status is None else _status(status)
    probe["intended"] = [_status(item) for item in _list(data, "intended")]
    probe["names"] = [_line(item) for item in _list(data, "names")]
    probe["headers"] = [_header(item) for item in _list(data, "headers")]
    probe["was"] = _place(data.get("was") or [])
    probe["seen"] = check_seen(data.get("seen"))
    return dict(probe, port=_port(data.get("port")), timeout_s=float(timeout))


def check_seen(data: Any) -> dict[str, Any] | None:
    """Check an observation (probe.py) that the agent of another host returned, and return its valid parts; None if
    `data` is None.

    Raises Refusal for invalid data.
    """
    if data is None:
        return None
    _object(data, "observation")
    status = data.get("status")
    seen: dict[str, Any] = {"status": status if isinstance(status, int) and 0 <= status <= 999 else 0}
    seen.update({name: data.get(name) is True for name in ("connected", "found", "closed") if name in data})
    seen.update({name: _text(data, name, "") for name in ("error", "to", "certificate", "protocol", "alpn")})
    at = data.get("at")
    return dict(seen, at=float(at) if isinstance(at, (int, float)) else 0.0)


def _status(value: Any) -> int:
    if not (isinstance(value, int) and 100 <= value <= 599):
        raise Refusal("invalid", "a probe's status is a number from 100 to 599")
    return value


def _port(value: Any) -> int:
    if not isinstance(value, int) or not 0 < value < 65536:
        raise Refusal("invalid", "a probe's port is a number from 1 to 65535")
    return value


def _place(value: Any) -> list[Any]:
    """Check [address, port], where a probe's site was before the change, and return it. [] means that it was at the
    same place, and is returned unchanged.
    """
    if value == []:
        return []
    if not isinstance(value, list) or len(value) != 2:
        raise Refusal("invalid", "the place of a probe before the change is an address and a port")
    return [_line(value[0]), _port(value[1])]


def _line(value: Any) -> str:
    """Return `value` unchanged if it is a text without control characters; raise Refusal otherwise."""
    text = _text({"value": value}, "value", "")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise Refusal("invalid", "a probe's texts hold no control characters")
    return text


def _header(value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) != 2 or ":" in str(value[0]) or " " in str(value[0]):
        raise Refusal("invalid", "a probe's header is a name and a value")
    return [_line(value[0]), _line(value[1])]


def _object(data: Any, what: str) -> None:
    if not isinstance(data, dict):
        raise Refusal("invalid", "a %s is an object" % what)


def _list(data: dict[str, Any], name: str) -> list[Any]:
    value = data.get(name, [])
    if not isinstance(value, list):
        raise Refusal("invalid", "%s is a list" % name)
    return value


def _text(data: dict[str, Any], name: str, default: str) -> str:
    value = data.get(name, default)
    if not isinstance(value, str):
        raise Refusal("invalid", "%s is text" % name)
    return value


def _one_of(data: dict[str, Any], name: str, known: tuple[str, ...]) -> str:
    value = data.get(name)
    if value not in known:
        raise Refusal("invalid", "%s is %r; it is one of %s" % (name, value, ", ".join(known)))
    return str(value)


def _mode(value: Any, path: str) -> int:
    if not isinstance(value, int) or value & ~0o777:
        raise Refusal("invalid", "%s: a mode is made of the nine permission bits only" % path)
    return value


def _normal(path: str) -> str:
    """Return the absolute path `path`, the target of a link, without `..`, so that it can be resolved like any other
    path. Raise Refusal if it points above /.
    """
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise Refusal("refused", "the link target %r leads above /" % path)
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
