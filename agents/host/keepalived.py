"""Virtual addresses that keepalived moves between hosts: report this host's state, and test and write its
configuration.

Paddock writes only `paddock.conf` and the program of its checks. If keepalived's main file is missing, Paddock creates
it. An existing main file is not changed, and must include `paddock.conf`.
"""

from __future__ import annotations

import hashlib
import os
import pkgutil
import re
import signal
import socket
import sys
import threading
import time
from typing import Any

from agents.host import commands, detect, keepalived_check, processes, safe, state
from agents.host.errors import Refusal
from agents.host.operations import Emit

FOLDER = "/etc/keepalived"
PID_FILE = "/run/keepalived.pid"
_UNIT = "keepalived.service"
_PYTHON = "/usr/bin/python3"
MAIN, OURS, CHECK = "keepalived.conf", "paddock.conf", "paddock-check"
_NEW, _NEW_MAIN, _TEST_LOG = ".paddock-new.conf", ".paddock-new-main.conf", ".paddock-test.log"
MAIN_TEXT = """# Written by Paddock. Add your own directives here: Paddock does not change an edited file.
global_defs {
    enable_script_security
    script_user nobody
}
include %s/%s
""" % (FOLDER, OURS)
EMPTY = b"# Paddock has no virtual address on this host.\n"  # if a main file of the host's own includes the file
_INCLUDES = re.compile(r"^\s*include\s+(?:%s/)?paddock\.conf\s*$" % FOLDER, re.MULTILINE)
_INTERFACE = re.compile(r"[0-9]+: (\S+?)(?:@\S+)?\s+inet6? ([0-9a-f.:]+)")
_NEIGHBOUR = re.compile(r" lladdr ([0-9a-f:]+)")
_MAX_TEXT = 256 * 1024
# The only finding if a main file of the host's own has no enable_script_security.
_WARNING = re.compile(r"SECURITY VIOLATION [^\n]*script_security not enabled\.?\Z")
_START_S, _NEIGHBOUR_S = 5.0, 1.0
_DISCARD_PORT = 9


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Report keepalived's state, or test its configuration, or test and use it.

    {"action": "look", "checks": [URLs], "unused": [addresses]} -> {"version", "running", "main": missing | ours
    includes | other | elsewhere (keepalived runs with another file), "digest": SHA-256 of paddock.conf, "" for none or
    an empty one, "addresses": {address: interface}, "checks": {URL: problem, "" if it passes}, "neighbours": {address:
    hardware address of the machine that has it}}.

    {"action": "test" | "put", "text", "expected": [digests]} -> {"output", "digest"}. `text` is the content of
    paddock.conf: `test` tests it, `put` tests and then uses it. With "" as `text`, `put` removes the file. Refusal
    (`drift`) if the existing file has none of the digests; without "expected" any file is replaced.
    """
    action = args.get("action")
    if action == "look":
        return _look(_texts(args, "checks"), _texts(args, "unused"))
    text = args.get("text")
    if action not in ("test", "put") or not isinstance(text, str) or len(text) > _MAX_TEXT:
        raise Refusal("invalid", "action is look, test or put; test and put take a text")
    _require_program()
    with state.HostLock():
        expected = args.get("expected")
        _require_unchanged(text, None if expected is None else _texts(args, "expected"))
        output = _tested(text) if text else ""
        if action == "put":
            _put(text)
        return {"output": output, "digest": _digest()}


def _texts(args: dict[str, Any], name: str) -> list[str]:
    values = args.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Refusal("invalid", "%s is a list of texts" % name)
    return values


def _look(checks: list[str], unused: list[str]) -> dict[str, Any]:
    addresses = _addresses()
    return {
        "version": _version(),
        "running": bool(_pid()),
        "main": _main_state(),
        "digest": _digest(),
        "addresses": addresses,
        "checks": {url: keepalived_check.problem(url) for url in checks},
        "neighbours": {address: found for address in unused for found in [_neighbour(address, addresses)] if found},
    }


def _version() -> str:
    if not commands.find("keepalived"):
        return ""
    found = re.search(r"v([0-9][0-9.]*)", commands.run(["keepalived", "--version"], timeout_s=10.0).output)
    return found.group(1) if found else "?"


def _pid() -> int:
    pid = processes.pid_in(PID_FILE)
    return pid if pid and os.path.basename(processes.program(pid)).startswith("keepalived") else 0


def _path(name: str) -> str:
    return os.path.join(FOLDER, name)


def _main_state() -> str:
    if _used_file() not in ("", _path(MAIN)):
        return "elsewhere"
    text = processes.read(_path(MAIN)).decode("utf-8", "replace")
    if not text.strip():
        return "missing"
    if text == MAIN_TEXT:
        return "ours"
    return "includes" if _INCLUDES.search(text) else "other"


def _used_file() -> str:
    """Return the main file that the command line of the running keepalived names; "" if it names none, or if keepalived
    does not run.
    """
    words = processes.read("/proc/%d/cmdline" % _pid()).decode("utf-8", "replace").split("\0")
    for number, word in enumerate(words[:-1]):
        if word in ("-f", "--use-file"):
            return words[number + 1]
        if word.startswith("--use-file="):
            return word.partition("=")[2]
    return ""


def _digest() -> str:
    content = processes.read(_path(OURS))
    return hashlib.sha256(content).hexdigest() if content not in (b"", EMPTY) else ""


def _addresses() -> dict[str, str]:
    """Return the IP addresses of this host as {address: interface}, from ip(8)."""
    said = commands.run(["ip", "-o", "address", "show"], timeout_s=10.0)
    lines = (_INTERFACE.match(line) for line in said.output.splitlines())
    return {found.group(2): found.group(1) for found in lines if found}


def _neighbour(address: str, own: dict[str, str]) -> str:
    """Return the hardware address of another machine in the network that has `address`; "" if there is none."""
    if address in own:
        return ""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(b"", (address, _DISCARD_PORT))  # makes the kernel ask who has the address (ARP, RFC 4861)
        except OSError:
            return ""
    deadline = time.monotonic() + _NEIGHBOUR_S
    while time.monotonic() < deadline:
        time.sleep(0.1)
        said = commands.run(["ip", "neighbour", "show", address], timeout_s=5.0).output
        found = _NEIGHBOUR.search(said)
        if found:
            return found.group(1)
    return ""


def _require_program() -> None:
    if os.geteuid() != 0:
        raise Refusal("refused", "keepalived needs root; let the agent run as root or with sudo")
    if not commands.find("keepalived"):
        raise Refusal("missing", "keepalived is not installed. On Debian: apt-get install keepalived")
    if _main_state() == "elsewhere":
        raise Refusal("refused", "keepalived runs with %s instead of %s" % (_used_file(), _path(MAIN)))
    if _main_state() == "other":
        words = "%s does not include Paddock's file. Add this line to the file: include %s"
        raise Refusal("refused", words % (_path(MAIN), _path(OURS)), path=_path(MAIN))


def _require_unchanged(text: str, expected: list[str] | None) -> None:
    found = _digest()
    wanted = hashlib.sha256(text.encode("utf-8")).hexdigest() if text else ""
    if expected is not None and found not in (*expected, wanted):
        raise Refusal("drift", "%s was edited on the host" % _path(OURS), path=_path(OURS), found=found)


def _tested(text: str) -> str:
    """Test `text` as the content of paddock.conf with keepalived's own test, on copies; return the output. Raise
    Refusal if keepalived rejects the configuration.
    """
    folder = os.open(safe.true_path(FOLDER), safe.FOLDER)
    try:
        main = processes.read(_path(MAIN)).decode("utf-8") if _main_state() == "includes" else MAIN_TEXT
        _replace(folder, CHECK, _check_program(), 0o755)
        # The test of keepalived 2.2 ends itself by a signal when it changes to the account of a check (Debian 12).
        tested = text.replace("user nobody\n", "user root\n")
        _replace(folder, _NEW, tested.encode("utf-8"), 0o644)
        _replace(folder, _NEW_MAIN, _INCLUDES.sub("include %s" % _path(_NEW), main).encode("utf-8"), 0o644)
        argv = ["keepalived", "--config-test=%s" % _path(_TEST_LOG), "--use-file", _path(_NEW_MAIN)]
        exit_code = commands.run(argv, timeout_s=20.0).exit_code
        found = processes.read(_path(_TEST_LOG)).decode("utf-8", "replace").strip()
    finally:
        for name in (_NEW, _NEW_MAIN, _TEST_LOG):
            _remove(folder, name)
        os.close(folder)
    if exit_code and not _WARNING.match(found):
        raise Refusal("refused", "keepalived rejects the configuration (exit code %d):\n%s" % (exit_code, found))
    return found


def _check_program() -> bytes:
    source = pkgutil.get_data("agents.host", "keepalived_check.py")
    assert source is not None
    # The check runs as another account, which may not reach an interpreter in a folder of root's.
    python = _PYTHON if os.path.exists(_PYTHON) else sys.executable
    return b"#!%s -IS\n%s" % (os.fsencode(python), source)


def _put(text: str) -> None:
    """Write `text` to paddock.conf, and start, reload or stop keepalived. If keepalived does not run with the new file,
    restore the former one and raise Refusal.
    """
    folder = os.open(safe.true_path(FOLDER), safe.FOLDER)
    try:
        main, former = _main_state(), processes.read(_path(OURS))
        _write(folder, text.encode("utf-8"), main)
        try:
            _follow(bool(text) or main == "includes")
        except Refusal:
            _write(folder, former, main)
            _follow(bool(former) or main == "includes")
            raise
    finally:
        os.close(folder)


def _write(folder: int, content: bytes, main: str) -> None:
    if content or main == "includes":
        _replace(folder, OURS, content or EMPTY, 0o644)
        if main == "missing":
            _replace(folder, MAIN, MAIN_TEXT.encode("utf-8"), 0o644)
    else:
        _remove(folder, MAIN)
        _remove(folder, OURS)
        _remove(folder, CHECK)
    os.fsync(folder)


def _replace(folder: int, name: str, content: bytes, mode: int) -> None:
    draft = ".%s.paddock" % name
    _remove(folder, draft)
    safe.write_new(draft, folder, content, mode)
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def _follow(needed: bool) -> None:
    """Reload keepalived, or start it if it does not run. If it is not `needed`, because there is no virtual address,
    stop it.
    """
    pid = _pid()
    if not needed:
        _stop(pid)
    elif pid:
        os.kill(pid, signal.SIGHUP)
    else:
        start = ["systemctl", "enable", "--now", "keepalived"]
        said = commands.run(
            start if detect.unit_of(_UNIT) else ["keepalived", "--use-file", _path(MAIN)], timeout_s=30.0
        )
        if said.exit_code != 0:
            raise Refusal("failed", "keepalived did not start:\n%s" % said.output)
    if needed:
        _await_running()


def _stop(pid: int) -> None:
    if detect.unit_of(_UNIT):
        commands.run(["systemctl", "disable", "--now", "keepalived"], timeout_s=30.0)
    elif pid:
        os.kill(pid, signal.SIGTERM)
    if pid:
        processes.wait_ended([pid], _START_S)


def _await_running() -> None:
    """Wait until keepalived has run for 0.5 s without a break. Raise Refusal if this takes longer than _START_S
    seconds.
    """
    deadline, since = time.monotonic() + _START_S, 0.0
    while time.monotonic() < deadline:
        if not _pid():
            since = 0.0
        elif not since:
            since = time.monotonic()
        elif time.monotonic() - since > 0.5:
            return
        time.sleep(0.05)
    raise Refusal("failed", "keepalived ends with this configuration; see the log of keepalived on the host")
